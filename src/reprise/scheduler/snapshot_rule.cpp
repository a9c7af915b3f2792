#include "reprise/scheduler/snapshot_rule.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reprise/scheduler/step_entry.h"

namespace reprise::scheduler {
namespace {

constexpr int kNoPosition = std::numeric_limits<int>::max();

}  // namespace

SnapshotRule::SnapshotRule(kv_cache::KvCacheManager& cache, int interval, int chunk_tokens)
    : cache_(&cache),
      place_tokens_(std::lcm(cache.block_size(), chunk_tokens)),
      interval_((interval + place_tokens_ - 1) / place_tokens_ * place_tokens_) {}

int SnapshotRule::next(const Request& request, int position) const {
  int next = kNoPosition;
  // A request with the same tokens computes the last token again.
  for (const int end :
       {request.num_prefill_tokens() - 1, request.state().cache.shared_prefix_boundary}) {
    const int stop = end / place_tokens_ * place_tokens_;
    if (stop > position) next = std::min(next, stop);
  }
  if (interval_ > 0) {
    const int64_t stop = (int64_t{position} / interval_ + 1) * interval_;
    if (stop < request.num_prefill_tokens()) next = std::min(next, static_cast<int>(stop));
  }
  return next;
}

int SnapshotRule::limit(const Request& request, int num_tokens) const {
  if (!cache_->has_snapshots() || !request.is_in_prefill()) return num_tokens;
  const int position = request.num_computed_tokens();
  return std::min(num_tokens, next(request, position) - position);
}

bool SnapshotRule::is_wanted(const Request& request, int position) const {
  if (position % cache_->block_size() != 0) return false;
  // After the prompt every block end is a place for a snapshot, which replaces the previous
  // snapshot.
  if (position < request.num_prefill_tokens() && next(request, position - 1) != position) {
    return false;
  }
  const auto hashes = request.state().cache.block_hashes.hashes();
  const auto block = static_cast<size_t>(position / cache_->block_size()) - 1;
  return block >= hashes.size() || !cache_->has_snapshot(hashes[block]);
}

void SnapshotRule::schedule(const Request& request, StepEntry& entry) {
  if (!cache_->has_snapshots() || !request.options().shares_prefixes) return;
  int end = entry.end();
  if (entry.num_drafts > 0) {
    // The first block end in the step, because earlier tokens are accepted sooner than later ones.
    end = (entry.num_computed_tokens / cache_->block_size() + 1) * cache_->block_size();
    if (end > entry.end()) return;
  }
  if (!is_wanted(request, end)) return;
  entry.saved_state = cache_->begin_snapshot();
  entry.saved_end = end;
}

void SnapshotRule::settle(const StepEntry& entry, bool is_valid) {
  num_restored_ +=
      static_cast<uint64_t>(is_valid && entry.restored_state != kv_cache::kNullStateSlot);
  if (entry.saved_state == kv_cache::kNullStateSlot) return;
  // Drafts before the position of the snapshot may have been rejected.
  const bool is_computed = entry.saved_end <= entry.request->num_computed_tokens();
  if (!is_valid || !is_computed) return cache_->drop_snapshot(entry.saved_state);
  ++num_saved_;
  CacheState& cached = entry.request->state().cache;
  const auto block = static_cast<size_t>(entry.saved_end / cache_->block_size()) - 1;
  const kv_cache::BlockHash& hash = cached.block_hashes.hashes()[block];
  cache_->publish_snapshot(entry.saved_state, hash);
  const bool is_kept = interval_ > 0 && entry.saved_end % interval_ == 0;
  if (entry.saved_end < entry.request->num_prompt_tokens() || is_kept) return;
  if (cached.answer_snapshot) cache_->forget_snapshot(*cached.answer_snapshot);
  cached.answer_snapshot = hash;
}

}  // namespace reprise::scheduler
