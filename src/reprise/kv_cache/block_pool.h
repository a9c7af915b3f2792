#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_id.h"
#include "reprise/kv_cache/cache_listener.h"
#include "reprise/kv_cache/prefix_index.h"

namespace reprise::kv_cache {

/// vLLM's default. With 16 tokens, a request wastes on average only 8 slots in its last block, and
/// block tables stay short.
inline constexpr int kDefaultBlockSize = 16;  // tokens

/// Tracks the blocks of the KV cache: which ones are free, how many references each used block has,
/// and which hash finds which block. It holds only numbers; the cache tensors own the memory.
///
/// A block is free (reference count 0) or referenced (count >= 1). `allocate` takes a free block
/// and sets its count to 1, `add_reference` and `release` change the count, and the last release
/// frees the block. A block that was published is found by its hash, whether it is free or not,
/// until `allocate` reuses it. `allocate` first takes free blocks without a hash, the most recently
/// freed first because its memory is still in the processor's caches. Then it takes free blocks
/// with a hash, the least recently freed first (LRU). Every operation is O(1), and only the
/// constructor allocates. Not thread-safe; owned by the KvCacheManager of one scheduler.
class BlockPool {
 public:
  /// \throws InvalidArgument unless num_blocks >= 2 (the null block and one more) and block_size >=
  /// 1
  explicit BlockPool(int num_blocks, int block_size = kDefaultBlockSize);

  /// Takes a free block and gives it one reference. Returns nothing if no block is free, which is
  /// not an error. If a hash found this block, it no longer does.
  [[nodiscard]] std::optional<BlockId> allocate();
  /// Adds one reference. If the block was free, it leaves the free list.
  /// \pre the block is referenced or has a hash.
  void add_reference(BlockId block);
  /// Removes one reference. The block becomes free with its last reference. \pre the block is
  /// referenced
  void release(BlockId block);

  /// Makes find(hash) return this block, unless it already returns another block. Returns whether
  /// it does.
  /// \pre the block is referenced and holds the content that the hash stands for
  bool publish(BlockId block, const BlockHash& hash);
  /// Removes the block's hash, so that find() no longer returns the block. \pre the block is
  /// referenced
  void unpublish(BlockId block);
  /// Removes the hashes of all blocks.
  void unpublish_all();
  /// Removes this hash from the block that has it, if any. If the block is free, it is the next
  /// that allocate() takes.
  void forget(const BlockHash& hash);
  /// Makes the block with this hash, if any, the last free block that allocate() reuses.
  void touch(const BlockHash& hash);
  /// Sets a pool that must forget each hash that no longer finds a block of this pool. Borrowed;
  /// nullptr: none.
  void set_follower(BlockPool* follower) noexcept { follower_ = follower; }
  /// Sets a listener, which is told of each hash that no longer finds a block, and of
  /// unpublish_all(). Borrowed; nullptr: none.
  void set_listener(CacheListener* listener) noexcept { listener_ = listener; }
  [[nodiscard]] std::optional<BlockId> find(const BlockHash& hash) const {
    return published_.find(hash);
  }

  /// Number of blocks, including the null block.
  [[nodiscard]] int num_blocks() const noexcept { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] int block_size() const noexcept { return block_size_; }
  [[nodiscard]] int num_free_blocks() const noexcept { return num_free_; }
  /// Number of blocks with a hash, free or not.
  [[nodiscard]] int num_published_blocks() const noexcept { return published_.size(); }
  /// Number of blocks that requests can use: all except the null block.
  [[nodiscard]] int num_usable_blocks() const noexcept { return num_blocks() - 1; }
  [[nodiscard]] int reference_count(BlockId block) const;
  [[nodiscard]] bool is_published(BlockId block) const { return published_.contains(block); }

  /// Checks the invariants: free and referenced blocks add up to all blocks, no block is both or
  /// occurs twice in the free list, the null block is neither, and the hash of a published block
  /// finds that block. Returns an empty text, or one sentence that names the broken invariant.
  /// O(num_blocks).
  [[nodiscard]] std::string find_broken_invariant() const;

 private:
  struct Block {
    int32_t ref_count = 0;  // stays 0 for the null block
    BlockId prev{};         // the free list is a ring; the null block is its head
    BlockId next{};
  };

  [[nodiscard]] size_t checked_index(BlockId block) const;
  Block& at(BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  void link_before(BlockId block, BlockId next);
  void unlink(BlockId block);
  void drop_hash(BlockId block);

  int block_size_;
  std::vector<Block> blocks_;
  PrefixIndex published_;
  int num_free_ = 0;
  CacheListener* listener_ = nullptr;
  BlockPool* follower_ = nullptr;
};

}  // namespace reprise::kv_cache
