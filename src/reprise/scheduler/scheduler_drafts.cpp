#include <algorithm>
#include <cstddef>
#include <span>

#include "reprise/base/assert.h"
#include "reprise/scheduler/scheduler.h"

// The part of the scheduler that handles draft tokens.
namespace reprise::engine {
namespace {

/// One of so many requests gets drafts from its first step on, even while the drafts of all
/// requests fail: answers may be shorter than the pause of the others.
constexpr uint64_t kOpenGateInterval = 16;

}  // namespace

/// Decides whether a new request begins with drafts.
void Scheduler::set_draft_gate(Request& request) const {
  if (request.arrival_order_ % kOpenGateInterval == 0) return;
  request.draft_gate_ = speculative::DraftGate(recent_acceptance_);
}

/// Reserves memory, so that drafts allocate nothing in a step.
void Scheduler::reserve_drafts() {
  if (drafter_ == nullptr) return;
  const int num_speculative_tokens = config_.decode_query_len - 1;
  speculation_stats_ = speculative::SpeculationStats(num_speculative_tokens);
  const auto max_num_seqs = static_cast<size_t>(config_.max_num_seqs);
  draft_requests_.reserve(max_num_seqs);
  proposals_.reserve(max_num_seqs);
  proposed_tokens_.reserve(max_num_seqs * static_cast<size_t>(num_speculative_tokens));
}

/// Asks the drafter for drafts of all running requests that only have to compute their last token
/// in this step. The requests do not change: take_drafts() gives them their drafts.
void Scheduler::propose_drafts() {
  proposals_.clear();
  proposed_tokens_.clear();
  next_proposal_ = 0;
  if (drafter_ == nullptr) return;
  draft_requests_.clear();
  for (Request* request : running_) {
    const int most = most_drafts(*request);
    if (most <= 0) continue;
    if (!request->draft_gate_.is_open()) {
      request->draft_gate_.pass_step();
      continue;
    }
    draft_requests_.push_back(open_drafts(*request, most));
    proposals_.push_back({.request = request});
  }
  if (draft_requests_.empty()) return;
  drafter_->propose_all(draft_requests_);
  for (size_t i = 0; i < proposals_.size(); ++i) keep_drafts(draft_requests_[i], proposals_[i]);
}

/// How many drafts the request may get in this step at most.
int Scheduler::most_drafts(const Request& request) const {
  if (request.is_in_prefill() || request.num_computed_tokens_ != request.num_tokens() - 1) return 0;
  // The step may sample one token more than there are drafts.
  const int room = request.max_total_tokens_ - request.num_tokens() - 1;
  const int budget = config_.max_num_batched_tokens - static_cast<int>(running_.size());
  return std::min({budget, config_.decode_query_len - 1, room});
}

/// Makes room for drafts behind the request's tokens, for the time of the drafter's call.
speculative::DraftRequest Scheduler::open_drafts(Request& request, int most) {
  const int num_known = request.num_tokens();
  // add_request() has reserved the memory, so the known tokens stay where they are.
  request.token_ids_.resize(static_cast<size_t>(num_known + most));
  request.num_placeholders_ += most;
  return {.request_id = static_cast<uint64_t>(request.id_),
          .cache_salt = request.cache_salt(),
          .token_ids = request.token_ids(),
          .drafts = std::span(request.token_ids_).subspan(static_cast<size_t>(num_known)),
          .next = request.sampling_input({}, num_known)};
}

/// Copies the drafts, and takes the room for them away again.
void Scheduler::keep_drafts(const speculative::DraftRequest& from, Proposal& proposal) {
  const auto most = static_cast<int>(from.drafts.size());
  REPRISE_ASSERT(from.num_drafts >= 0 && from.num_drafts <= most,
                 "{} drafts, expected up to {}",
                 from.num_drafts,
                 most);
  // A drafter with a vocabulary of its own may propose tokens that this model does not have.
  const auto drafts = from.drafts.first(static_cast<size_t>(from.num_drafts));
  const auto end = std::ranges::find_if(
      drafts, [this](int32_t id) { return id < 0 || id >= config_.vocab_size; });
  proposal.first = proposed_tokens_.size();
  proposal.num_drafts = static_cast<int>(end - drafts.begin());
  proposed_tokens_.insert(proposed_tokens_.end(), drafts.begin(), end);
  drop_placeholders(*proposal.request, most);
}

/// Appends the proposed drafts to a request, as many as the step has room for, and makes sure that
/// the request has blocks for them. Returns their number. Called for the running requests in their
/// order. `num_later`: the number of running requests that are scheduled after this one.
int Scheduler::take_drafts(Request& request, int token_budget, int num_later) {
  if (next_proposal_ == proposals_.size() || proposals_[next_proposal_].request != &request) {
    return 0;
  }
  const Proposal& proposal = proposals_[next_proposal_++];
  // Each of the later requests may need one token of the budget.
  const int count = std::min(proposal.num_drafts, token_budget - 1 - num_later);
  if (count <= 0 || !allocate_draft_slots(request, count, num_later)) return 0;
  const auto drafts =
      std::span(proposed_tokens_).subspan(proposal.first, static_cast<size_t>(count));
  request.token_ids_.insert(request.token_ids_.end(), drafts.begin(), drafts.end());
  request.num_placeholders_ += count;
  return count;
}

/// Drafts are not worth a preemption, so they leave one free block for each later request.
bool Scheduler::allocate_draft_slots(Request& request, int num_drafts, int num_later) {
  const int num_tokens = request.num_tokens() + num_drafts;
  const int num_new_blocks =
      kv_cache_manager_->blocks_for(num_tokens) - request.block_table_.num_blocks();
  if (num_new_blocks > 0 && kv_cache_manager_->num_free_blocks() - num_new_blocks < num_later) {
    return false;
  }
  return kv_cache_manager_->allocate_slots(request.block_table_, num_tokens) ==
         kv_cache::SlotResult::allocated;
}

void Scheduler::drop_placeholders(Request& request, int count) {
  REPRISE_ASSERT(count >= 0 && count <= request.num_placeholders_,
                 "{} of {} placeholders",
                 count,
                 request.num_placeholders_);
  request.token_ids_.resize(request.token_ids_.size() - static_cast<size_t>(count));
  request.num_placeholders_ -= count;
}

/// Makes a step of decodes uniform: every request gets as many tokens as the narrowest graphs need
/// that hold the request with most drafts. Does nothing if that would more than double the tokens
/// of the step.
void Scheduler::pad_drafts() {
  int64_t num_tokens = 0;
  int most_drafts = 0;
  int most_computed = 0;
  for (const ScheduledRequest& entry : output_->scheduled) {
    if (entry.is_in_prefill || !entry.samples) return;
    num_tokens += entry.num_scheduled_tokens;
    most_drafts = std::max(most_drafts, entry.num_drafts);
    most_computed = std::max(most_computed, entry.num_computed_tokens);
  }
  if (most_drafts == 0) return;
  const auto fitting = std::ranges::find_if(
      config_.fewer_draft_widths, [most_drafts](int width) { return width > most_drafts; });
  const int width =
      fitting == config_.fewer_draft_widths.end() ? config_.decode_query_len : *fitting;
  // The positions of padding tokens must not exceed the longest request.
  if (most_computed + width > config_.max_model_len) return;
  const int64_t padded = int64_t{output_->num_reqs()} * width;
  if (padded > config_.max_num_batched_tokens || padded > 2 * num_tokens) return;
  for (ScheduledRequest& entry : output_->scheduled) {
    entry.num_padding_tokens = width - entry.num_scheduled_tokens;
  }
}

/// Takes back the drafts of a step that did not become tokens of the request.
void Scheduler::take_back_drafts(const ScheduledRequest& entry, int num_new_tokens) {
  if (entry.num_drafts == 0) return;
  Request& request = *entry.request;
  drop_placeholders(request, request.num_placeholders_);
  // The step has computed the last token before it and the accepted drafts. The token that it
  // sampled last is not computed.
  request.num_computed_tokens_ = entry.num_computed_tokens + std::max(1, num_new_tokens);
}

}  // namespace reprise::engine
