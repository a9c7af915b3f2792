#include <algorithm>
#include <cstddef>

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

/// Appends drafts to a request that only has to compute its last token in this step, and makes sure
/// that the request has blocks for them. Returns the number of drafts, 0 to `most_drafts`.
/// `num_later`: the number of running requests that are scheduled after this one.
int Scheduler::propose_drafts(Request& request, int most_drafts, int num_later) {
  if (drafter_ == nullptr || request.is_in_prefill() ||
      request.num_computed_tokens_ != request.num_tokens() - 1) {
    return 0;
  }
  // The step may sample one token more than there are drafts.
  const int room = request.max_total_tokens_ - request.num_tokens() - 1;
  const int most = std::min({most_drafts, config_.decode_query_len - 1, room});
  if (most <= 0) return 0;
  if (!request.draft_gate_.is_open()) {
    request.draft_gate_.pass_step();
    return 0;
  }
  const auto num_known = static_cast<size_t>(request.num_tokens());
  // add_request() has reserved the memory, so the known tokens stay where they are.
  request.token_ids_.resize(num_known + static_cast<size_t>(most));
  request.num_placeholders_ += most;
  const std::span<int32_t> tokens(request.token_ids_);
  int count = drafter_->propose(tokens.first(num_known), tokens.subspan(num_known));
  REPRISE_ASSERT(count >= 0 && count <= most, "{} drafts, expected up to {}", count, most);
  // A drafter with a vocabulary of its own may propose tokens that this model does not have.
  const auto drafts = tokens.subspan(num_known, static_cast<size_t>(count));
  count = static_cast<int>(
      std::ranges::find_if(drafts,
                           [this](int32_t id) { return id < 0 || id >= config_.vocab_size; }) -
      drafts.begin());
  if (count > 0 && !allocate_draft_slots(request, count, num_later)) count = 0;
  drop_placeholders(request, most - count);
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

/// Makes a step of decodes uniform: every request gets as many tokens as one with all its drafts.
/// Does nothing if that would more than double the tokens of the step.
void Scheduler::pad_drafts() {
  int64_t num_tokens = 0;
  int num_drafts = 0;
  for (const ScheduledRequest& entry : output_->scheduled) {
    if (entry.is_in_prefill || !entry.samples) return;
    // The positions of padding tokens must not exceed the longest request.
    if (entry.num_computed_tokens + config_.decode_query_len > config_.max_model_len) return;
    num_tokens += entry.num_scheduled_tokens;
    num_drafts += entry.num_drafts;
  }
  const int64_t padded = int64_t{output_->num_reqs()} * config_.decode_query_len;
  if (num_drafts == 0 || padded > config_.max_num_batched_tokens || padded > 2 * num_tokens) return;
  for (ScheduledRequest& entry : output_->scheduled) {
    entry.num_padding_tokens = config_.decode_query_len - entry.num_scheduled_tokens;
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
