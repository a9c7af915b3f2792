#include "reprise/scheduler/draft_queue.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "reprise/base/assert.h"
#include "reprise/scheduler/scheduler_output.h"

namespace reprise::scheduler {
namespace {

/// One of this many requests gets drafts from its first step on, even while drafts of other
/// requests fail: otherwise short answers would end before their drafts are tried.
constexpr uint64_t kOpenGateInterval = 16;

}  // namespace

DraftQueue::DraftQueue(const SchedulerConfig& config,
                       kv_cache::KvCacheManager& cache,
                       speculative::Drafter* drafter)
    : config_(&config), cache_(&cache), drafter_(drafter) {
  if (drafter == nullptr) return;
  const int num_speculative_tokens = config.decode_query_len - 1;
  stats_ = speculative::SpeculationStats(num_speculative_tokens);
  const auto max_num_seqs = static_cast<size_t>(config.max_num_seqs);
  requests_.reserve(max_num_seqs);
  proposals_.reserve(max_num_seqs);
  tokens_.reserve(max_num_seqs * static_cast<size_t>(num_speculative_tokens));
}

void DraftQueue::open_gate(Request& request) const {
  if (request.arrival_order() % kOpenGateInterval == 0) return;
  request.state().draft_gate = speculative::DraftGate(recent_acceptance_);
}

void DraftQueue::propose(std::span<Request* const> running) {
  proposals_.clear();
  tokens_.clear();
  next_ = 0;
  if (drafter_ == nullptr) return;
  requests_.clear();
  for (Request* request : running) {
    const int most = most_drafts(*request, running.size());
    if (most <= 0) continue;
    speculative::DraftGate& gate = request->state().draft_gate;
    if (!gate.is_open()) {
      gate.pass_step();
      continue;
    }
    requests_.push_back(open(*request, most));
    proposals_.push_back({.request = request});
  }
  if (requests_.empty()) return;
  drafter_->propose_all(requests_);
  for (size_t i = 0; i < proposals_.size(); ++i) keep(requests_[i], proposals_[i]);
}

/// The largest number of drafts that the request may get in this step.
int DraftQueue::most_drafts(const Request& request, size_t num_running) const {
  if (request.is_in_prefill() || request.num_computed_tokens() != request.num_tokens() - 1)
    return 0;
  // A step may sample one token more than it has drafts.
  const int room = request.max_total_tokens() - request.num_tokens() - 1;
  const int budget = config_->max_num_batched_tokens - static_cast<int>(num_running);
  const std::vector<int>& scheduled = config_->drafts_by_batch_size;
  const int most = scheduled.empty() ? config_->decode_query_len - 1 : scheduled.at(num_running);
  return std::min({budget, most, room});
}

/// Makes room for drafts after the request's tokens, for the duration of the drafter's call.
speculative::DraftRequest DraftQueue::open(Request& request, int most) {
  RequestState& state = request.state();
  const int num_known = request.num_tokens();
  // add_request() has reserved the memory, so the known tokens stay where they are.
  state.token_ids.resize(static_cast<size_t>(num_known) + static_cast<size_t>(most));
  state.num_placeholders += most;
  return {.request_id = static_cast<uint64_t>(request.id()),
          .cache_salt = request.cache_salt(),
          .token_ids = request.token_ids(),
          .drafts = std::span(state.token_ids).subspan(static_cast<size_t>(num_known)),
          .next = request.sampling_input({}, num_known)};
}

/// Copies the drafts, and removes the room for them again.
void DraftQueue::keep(const speculative::DraftRequest& from, Proposal& proposal) {
  const auto most = static_cast<int>(from.drafts.size());
  REPRISE_ASSERT(from.num_drafts >= 0 && from.num_drafts <= most,
                 "{} drafts, expected up to {}",
                 from.num_drafts,
                 most);
  // A drafter with a vocabulary of its own may propose tokens that this model does not have.
  const auto drafts = from.drafts.first(static_cast<size_t>(from.num_drafts));
  const auto end = std::ranges::find_if(
      drafts, [this](int32_t id) { return id < 0 || id >= config_->vocab_size; });
  proposal.first = tokens_.size();
  proposal.num_drafts = static_cast<int>(end - drafts.begin());
  tokens_.insert(tokens_.end(), drafts.begin(), end);
  proposal.request->state().drop_placeholders(most);
}

int DraftQueue::take(Request& request, int token_budget, int num_later) {
  if (next_ == proposals_.size() || proposals_[next_].request != &request) return 0;
  const Proposal& proposal = proposals_[next_++];
  // Each of the later requests may need one token of the step's budget.
  const int count = std::min(proposal.num_drafts, token_budget - 1 - num_later);
  if (count <= 0 || !allocate_slots(request, count, num_later)) return 0;
  request.state().add_placeholders(
      std::span(tokens_).subspan(proposal.first, static_cast<size_t>(count)));
  return count;
}

/// Drafts are not worth a preemption, so they leave one free block for each later request.
bool DraftQueue::allocate_slots(Request& request, int num_drafts, int num_later) {
  kv_cache::BlockTable& table = request.state().cache.block_table;
  const int num_tokens = request.num_tokens() + num_drafts;
  const int num_new_blocks = cache_->blocks_for(num_tokens) - table.num_blocks();
  if (num_new_blocks > 0 && cache_->num_free_blocks() - num_new_blocks < num_later) return false;
  return cache_->allocate_slots(table, num_tokens) == kv_cache::SlotResult::allocated;
}

void DraftQueue::observe(const StepEntry& entry, int num_accepted) {
  stats_.observe(entry.num_drafts, num_accepted);
  entry.request->state().draft_gate.observe(entry.num_drafts, num_accepted);
  recent_acceptance_.observe(entry.num_drafts, num_accepted);
}

void DraftQueue::end_request(const Request& request) noexcept {
  if (drafter_ == nullptr) return;
  drafter_->end_request({.request_id = static_cast<uint64_t>(request.id()),
                         .cache_salt = request.cache_salt(),
                         .output_token_ids = request.output_token_ids()});
}

void pad_drafts(SchedulerOutput& output, const SchedulerConfig& config) {
  int64_t num_tokens = 0;
  int most_drafts = 0;
  int most_computed = 0;
  for (const StepEntry& entry : output.scheduled) {
    if (entry.is_in_prefill || !entry.samples) return;
    num_tokens += entry.num_tokens();
    most_drafts = std::max(most_drafts, entry.num_drafts);
    most_computed = std::max(most_computed, entry.num_computed_tokens);
  }
  if (most_drafts == 0) return;
  const auto fitting = std::ranges::find_if(
      config.fewer_draft_widths, [most_drafts](int width) { return width > most_drafts; });
  const int width = fitting == config.fewer_draft_widths.end() ? config.decode_query_len : *fitting;
  // The positions of padding tokens must not exceed the longest request.
  if (most_computed + width > config.max_model_len) return;
  const int64_t padded = int64_t{output.num_reqs()} * width;
  if (padded > config.max_num_batched_tokens || padded > 2 * num_tokens) return;
  for (StepEntry& entry : output.scheduled) {
    entry.num_padding_tokens = width - entry.num_tokens();
  }
}

void take_back_drafts(const StepEntry& entry, int num_new_tokens) {
  if (entry.num_drafts == 0) return;
  RequestState& state = entry.request->state();
  state.drop_placeholders(state.num_placeholders);
  // The step has computed the last known token before it and the accepted drafts. The token that
  // the step sampled last is not computed yet.
  state.num_computed_tokens = entry.num_computed_tokens + std::max(1, num_new_tokens);
}

}  // namespace reprise::scheduler
