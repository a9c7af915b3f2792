#include "reprise/scheduler/common_prefix.h"

#include <algorithm>
#include <limits>

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

/// Prefixes are found by comparing the tables, block by block: two tables may have a later block in
/// common without an earlier one.
int find_common_prefix(std::span<const StepEntry> batch, const kv_cache::KvCacheManager& cache) {
  const kv_cache::BlockTable& first = batch.front().request->block_table();
  if (!cache.is_shared(first.block_ids().front())) return 0;
  int num_computed = std::numeric_limits<int>::max();
  for (const StepEntry& entry : batch) {
    num_computed = std::min(num_computed, entry.num_computed_tokens);
  }
  int num_blocks = num_computed / cache.block_size();
  for (const StepEntry& entry : batch.subspan(1)) {
    if (num_blocks == 0) break;
    num_blocks = kv_cache::KvCacheManager::num_common_prefix_blocks(
        first, entry.request->block_table(), num_blocks);
  }
  return num_blocks * cache.block_size();
}

}  // namespace reprise::scheduler
