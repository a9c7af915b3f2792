#include "reprise/kv_cache/kv_cache_manager.h"

#include <fmt/format.h>

#include <cstddef>
#include <ranges>

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

void KvCacheManager::reserve(BlockTable& table, int num_tokens) const {
  table.blocks_.reserve(static_cast<size_t>(blocks_for(num_tokens)));
}

SlotResult KvCacheManager::allocate_slots(BlockTable& table, int num_tokens) {
  const int num_missing = blocks_for(num_tokens) - table.num_blocks();
  if (num_missing > pool_.num_free_blocks()) return SlotResult::no_blocks;
  for (int i = 0; i < num_missing; ++i) {
    const std::optional<BlockId> block = pool_.allocate();
    REPRISE_ASSERT(block.has_value(), "the pool promised {} free blocks", num_missing);
    table.blocks_.push_back(*block);
  }
  return SlotResult::allocated;
}

void KvCacheManager::free(BlockTable& table) {
  // Last block first: the next allocation then gets them in the order they had.
  for (const BlockId block : table.blocks_ | std::views::reverse) pool_.release(block);
  table.blocks_.clear();
}

int KvCacheManager::blocks_for(int num_tokens) const noexcept {
  return static_cast<int>((int64_t{num_tokens} + block_size() - 1) / block_size());
}

double KvCacheManager::usage() const noexcept {
  const int num_used = pool_.num_usable_blocks() - pool_.num_free_blocks();
  return static_cast<double>(num_used) / pool_.num_usable_blocks();
}

std::string KvCacheManager::find_broken_invariant(std::span<const BlockTable* const> tables) const {
  if (std::string broken = pool_.find_broken_invariant(); !broken.empty()) return broken;
  std::vector<int> num_owners(static_cast<size_t>(num_blocks()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->block_ids()) {
      const auto index = static_cast<size_t>(block);
      if (block == kNullBlock) return "a request owns the null block";
      if (index >= num_owners.size()) return fmt::format("a request owns unknown block {}", index);
      ++num_owners[index];
    }
  }
  for (size_t i = 1; i < num_owners.size(); ++i) {
    const int count = pool_.reference_count(BlockId{static_cast<int32_t>(i)});
    if (count != num_owners[i]) {
      return fmt::format("block {} has {} references and {} owners", i, count, num_owners[i]);
    }
  }
  return {};
}

}  // namespace reprise::kv_cache
