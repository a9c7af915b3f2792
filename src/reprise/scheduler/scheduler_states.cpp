// Snapshots: copies of the states of recurrent layers, which cached prefixes need.

#include <algorithm>
#include <limits>

#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {
namespace {

constexpr int kNoPosition = std::numeric_limits<int>::max();

/// The last block end before the last token, which a request with the same tokens computes again.
int last_block_end(int num_tokens, int block_size) {
  return (num_tokens - 1) / block_size * block_size;
}

}  // namespace

/// The first position after `position` where the prompt is cut for a snapshot.
int Scheduler::next_snapshot(const Request& request, int position) const {
  const int block_size = kv_cache_manager_->block_size();
  int next = kNoPosition;
  for (const int stop :
       {last_block_end(request.num_prefill_tokens_, block_size), request.shared_prefix_boundary_}) {
    if (stop > position) next = std::min(next, stop);
  }
  if (const int interval = config_.prefix_cache_retention_interval; interval > 0) {
    const int64_t stop = (int64_t{position} / interval + 1) * interval;
    if (stop < request.num_prefill_tokens_) next = std::min(next, static_cast<int>(stop));
  }
  return next;
}

int Scheduler::limit_to_snapshot(const Request& request, int num_tokens) const {
  if (!kv_cache_manager_->has_snapshots() || !request.is_in_prefill()) return num_tokens;
  const int position = request.num_computed_tokens_;
  return std::min(num_tokens, next_snapshot(request, position) - position);
}

bool Scheduler::wants_snapshot(const Request& request, int position) const {
  if (position % kv_cache_manager_->block_size() != 0) return false;
  // Behind the prompt, each block end takes the place of the one before it.
  const bool is_wanted =
      position >= request.num_prefill_tokens_ || next_snapshot(request, position - 1) == position;
  if (!is_wanted) return false;
  const auto hashes = request.block_hashes_.hashes();
  const auto block = static_cast<size_t>(position / kv_cache_manager_->block_size()) - 1;
  return block >= hashes.size() || !kv_cache_manager_->has_snapshot(hashes[block]);
}

/// Lets the step copy the states behind its last token, if a later request may begin there.
void Scheduler::schedule_snapshot(const Request& request, ScheduledRequest& entry) {
  if (!kv_cache_manager_->has_snapshots() || !request.options_.shares_prefixes ||
      !wants_snapshot(request, entry.end())) {
    return;
  }
  entry.saved_state = kv_cache_manager_->begin_snapshot();
}

/// Publishes what the step has copied, after its blocks were published.
void Scheduler::settle_snapshot(const ScheduledRequest& entry, bool is_valid) {
  prefix_cache_stats_.states_restored +=
      static_cast<uint64_t>(is_valid && entry.restored_state != kv_cache::kNullStateSlot);
  if (entry.saved_state == kv_cache::kNullStateSlot) return;
  if (!is_valid) return kv_cache_manager_->drop_snapshot(entry.saved_state);
  ++prefix_cache_stats_.states_saved;
  Request& request = *entry.request;
  const auto block = static_cast<size_t>(entry.end() / kv_cache_manager_->block_size()) - 1;
  const kv_cache::BlockHash& hash = request.block_hashes_.hashes()[block];
  kv_cache_manager_->publish_snapshot(entry.saved_state, hash);
  const int interval = config_.prefix_cache_retention_interval;
  if (entry.end() < request.num_prompt_tokens_ || (interval > 0 && entry.end() % interval == 0)) {
    return;
  }
  if (request.answer_snapshot_) kv_cache_manager_->forget_snapshot(*request.answer_snapshot_);
  request.answer_snapshot_ = hash;
}

}  // namespace reprise::engine
