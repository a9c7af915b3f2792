#include "reprise/kv_cache/block_pool.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"

namespace reprise::kv_cache {
namespace {

size_t checked_num_blocks(int num_blocks, int block_size) {
  if (num_blocks < 2) {
    throw InvalidArgument(fmt::format(
        "KV cache: num_blocks is {}, expected at least 2 (one null block and one usable "
        "block); give the cache more memory or use a smaller block_size",
        num_blocks));
  }
  if (block_size < 1) {
    throw InvalidArgument(
        fmt::format("KV cache: block_size is {}, expected at least 1 token", block_size));
  }
  return static_cast<size_t>(num_blocks);
}

}  // namespace

BlockPool::BlockPool(int num_blocks, int block_size)
    : block_size_(block_size), ref_counts_(checked_num_blocks(num_blocks, block_size), 0) {
  free_.reserve(static_cast<size_t>(num_blocks) - 1);
  // Highest on the bottom: the first request gets blocks 1, 2, 3 ...
  for (int32_t i = num_blocks - 1; i >= 1; --i) free_.push_back(BlockId{i});
}

std::optional<BlockId> BlockPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  ref_counts_[checked_index(block)] = 1;
  return block;
}

void BlockPool::add_reference(BlockId block) {
  int32_t& count = ref_counts_[checked_index(block)];
  REPRISE_ASSERT(count > 0, "block {} is free", static_cast<int32_t>(block));
  ++count;
}

void BlockPool::release(BlockId block) {
  int32_t& count = ref_counts_[checked_index(block)];
  REPRISE_ASSERT(count > 0, "block {} was freed twice", static_cast<int32_t>(block));
  if (--count == 0) free_.push_back(block);
}

int BlockPool::reference_count(BlockId block) const { return ref_counts_[checked_index(block)]; }

size_t BlockPool::checked_index(BlockId block) const {
  const auto index = static_cast<int32_t>(block);
  REPRISE_ASSERT(index > 0 && index < num_blocks(),
                 "block {} is not one of the usable blocks 1..{}",
                 index,
                 num_blocks() - 1);
  return static_cast<size_t>(index);
}

std::string BlockPool::find_broken_invariant() const {
  std::vector<bool> is_free(ref_counts_.size(), false);
  for (const BlockId block : free_) {
    const auto index = static_cast<size_t>(block);
    if (block == kNullBlock) return "the null block is in the free list";
    if (index >= ref_counts_.size()) return fmt::format("free block {} does not exist", index);
    if (is_free[index]) return fmt::format("block {} is in the free list twice", index);
    is_free[index] = true;
    if (ref_counts_[index] != 0) {
      return fmt::format("block {} is free and has {} references", index, ref_counts_[index]);
    }
  }
  if (ref_counts_[0] != 0) return "the null block is referenced";
  for (size_t i = 1; i < ref_counts_.size(); ++i) {
    if (ref_counts_[i] < 0) return fmt::format("block {} has {} references", i, ref_counts_[i]);
    if (ref_counts_[i] == 0 && !is_free[i]) {
      return fmt::format("block {} is leaked: neither free nor referenced", i);
    }
  }
  return {};
}

}  // namespace reprise::kv_cache
