#include <algorithm>
#include <limits>

#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

/// Prefixes are found by comparing the tables, block by block: two tables may have a later block in
/// common without an earlier one.
int Scheduler::find_common_prefix() const {
  const std::span<const ScheduledRequest> batch = output_->scheduled;
  const bool looks = config_.least_common_prefix_reqs > 0 &&
                     std::cmp_greater_equal(batch.size(), config_.least_common_prefix_reqs);
  if (!looks) return 0;
  const kv_cache::BlockTable& first = batch.front().request->block_table_;
  if (!kv_cache_manager_->is_shared(first.block_ids().front())) return 0;
  int num_computed = std::numeric_limits<int>::max();
  for (const ScheduledRequest& entry : batch) {
    num_computed = std::min(num_computed, entry.num_computed_tokens);
  }
  int num_blocks = num_computed / kv_cache_manager_->block_size();
  for (const ScheduledRequest& entry : batch.subspan(1)) {
    if (num_blocks == 0) break;
    num_blocks = kv_cache::KvCacheManager::num_common_prefix_blocks(
        first, entry.request->block_table_, num_blocks);
  }
  return num_blocks * kv_cache_manager_->block_size();
}

}  // namespace reprise::engine
