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
    : block_size_(block_size),
      blocks_(checked_num_blocks(num_blocks, block_size)),
      published_(num_blocks) {
  // This order gives blocks 1, 2, 3, ... to the first request.
  for (int32_t i = 1; i < num_blocks; ++i) link_before(BlockId{i}, kNullBlock);
}

std::optional<BlockId> BlockPool::allocate() {
  const BlockId block = at(kNullBlock).next;
  if (block == kNullBlock) return std::nullopt;
  unlink(block);
  drop_hash(block);
  at(block).ref_count = 1;
  return block;
}

void BlockPool::add_reference(BlockId block) {
  int32_t& count = blocks_[checked_index(block)].ref_count;
  REPRISE_ASSERT(count > 0 || is_published(block), "block {} is free", static_cast<int32_t>(block));
  if (count++ == 0) unlink(block);
}

void BlockPool::release(BlockId block) {
  int32_t& count = blocks_[checked_index(block)].ref_count;
  REPRISE_ASSERT(count > 0, "block {} was freed twice", static_cast<int32_t>(block));
  if (--count > 0) return;
  link_before(block, is_published(block) ? kNullBlock : at(kNullBlock).next);
}

bool BlockPool::publish(BlockId block, const BlockHash& hash) {
  REPRISE_ASSERT(reference_count(block) > 0, "block {} is free", static_cast<int32_t>(block));
  return published_.insert(hash, block);
}

void BlockPool::unpublish(BlockId block) {
  REPRISE_ASSERT(reference_count(block) > 0, "block {} is free", static_cast<int32_t>(block));
  drop_hash(block);
}

void BlockPool::unpublish_all() {
  published_.clear();
  if (listener_ != nullptr) listener_->on_cleared();
  if (follower_ != nullptr) follower_->unpublish_all();
}

void BlockPool::forget(const BlockHash& hash) {
  const std::optional<BlockId> block = find(hash);
  if (!block) return;
  const bool is_free = reference_count(*block) == 0;
  if (is_free) unlink(*block);
  drop_hash(*block);
  if (is_free) link_before(*block, at(kNullBlock).next);
}

void BlockPool::touch(const BlockHash& hash) {
  const std::optional<BlockId> block = find(hash);
  if (!block || reference_count(*block) > 0) return;
  unlink(*block);
  link_before(*block, kNullBlock);
}

void BlockPool::drop_hash(BlockId block) {
  if (!published_.contains(block)) return;
  if (listener_ != nullptr) listener_->on_removed(published_.hash_of(block));
  if (follower_ != nullptr) follower_->forget(published_.hash_of(block));
  published_.erase(block);
}

void BlockPool::link_before(BlockId block, BlockId next) {
  const BlockId prev = at(next).prev;
  at(block).prev = prev;
  at(block).next = next;
  at(prev).next = block;
  at(next).prev = block;
  ++num_free_;
}

void BlockPool::unlink(BlockId block) {
  const auto [count, prev, next] = at(block);
  at(prev).next = next;
  at(next).prev = prev;
  --num_free_;
}

int BlockPool::reference_count(BlockId block) const {
  return blocks_[checked_index(block)].ref_count;
}

size_t BlockPool::checked_index(BlockId block) const {
  const auto index = static_cast<int32_t>(block);
  REPRISE_ASSERT(index > 0 && index < num_blocks(),
                 "block {} is not one of the usable blocks 1..{}",
                 index,
                 num_blocks() - 1);
  return static_cast<size_t>(index);
}

std::string BlockPool::find_broken_invariant() const {
  std::vector<bool> is_free(blocks_.size(), false);
  int num_found = 0;
  for (BlockId block = blocks_[0].next; block != kNullBlock; ++num_found) {
    const auto index = static_cast<size_t>(block);
    if (index >= blocks_.size()) return fmt::format("free block {} does not exist", index);
    if (is_free[index]) return fmt::format("block {} is in the free list twice", index);
    is_free[index] = true;
    if (blocks_[index].ref_count != 0) {
      return fmt::format("block {} is free and has {} references", index, blocks_[index].ref_count);
    }
    const BlockId next = blocks_[index].next;
    if (blocks_[static_cast<size_t>(next)].prev != block) {
      return fmt::format("the free list does not lead back to block {}", index);
    }
    block = next;
  }
  if (num_found != num_free_) {
    return fmt::format("{} blocks are in the free list, {} are counted", num_found, num_free_);
  }
  if (blocks_[0].ref_count != 0) return "the null block is referenced";
  for (size_t i = 1; i < blocks_.size(); ++i) {
    const int32_t count = blocks_[i].ref_count;
    if (count < 0) return fmt::format("block {} has {} references", i, count);
    if (count == 0 && !is_free[i]) {
      return fmt::format("block {} is leaked: neither free nor referenced", i);
    }
  }
  return published_.find_broken_invariant();
}

}  // namespace reprise::kv_cache
