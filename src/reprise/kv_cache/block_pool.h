#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_id.h"
#include "reprise/kv_cache/prefix_index.h"

namespace reprise::kv_cache {

/// vLLM's default: small enough to waste little on a request's last block (mean 8 tokens), large
/// enough that block tables stay short.
inline constexpr int kDefaultBlockSize = 16;  // tokens

/// Keeps account of the blocks of the KV cache: which are free, how often each used block is
/// referenced, and which content can be found again. It holds integers only; the memory itself
/// belongs to the cache tensors.
///
/// A block is free (count 0) or referenced (count >= 1). `allocate` takes a free block to count 1,
/// `add_reference` and `release` move the count, the last release frees it. A block whose content
/// was published can be found by its hash, referenced or free, until `allocate` gives it to another
/// content. Free blocks are handed out in this order: first the blocks without a hash, most
/// recently freed first (their memory is warm); then the blocks with a hash, least recently freed
/// first (LRU). Everything is O(1) and nothing allocates after construction. Not thread-safe; owned
/// by the KvCacheManager of one scheduler.
class BlockPool {
 public:
  /// \throws InvalidArgument unless num_blocks >= 2 (null block + 1) and block_size >= 1.
  explicit BlockPool(int num_blocks, int block_size = kDefaultBlockSize);

  /// Takes a free block and gives it one reference; returns nothing when all blocks are taken (a
  /// normal answer). The block's earlier content can no longer be found.
  [[nodiscard]] std::optional<BlockId> allocate();
  /// Adds one reference. A free block that was found by its hash leaves the free list.
  /// \pre the block is referenced or has a hash.
  void add_reference(BlockId block);
  /// Drops one reference; the last one frees the block. \pre the block is referenced.
  void release(BlockId block);

  /// From now on `hash` finds this block, unless it finds another block already.
  /// \pre the block is referenced and holds the content of the hash.
  void publish(BlockId block, const BlockHash& hash);
  /// The block can no longer be found. \pre the block is referenced.
  void unpublish(BlockId block);
  /// Makes every block impossible to find.
  void unpublish_all() { published_.clear(); }
  [[nodiscard]] std::optional<BlockId> find(const BlockHash& hash) const {
    return published_.find(hash);
  }

  /// Number of blocks, with the null block.
  [[nodiscard]] int num_blocks() const noexcept { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] int block_size() const noexcept { return block_size_; }
  [[nodiscard]] int num_free_blocks() const noexcept { return num_free_; }
  /// Blocks that can be found by a hash, free or not.
  [[nodiscard]] int num_published_blocks() const noexcept { return published_.size(); }
  /// Blocks that can be handed out at all: num_blocks without the null block.
  [[nodiscard]] int num_usable_blocks() const noexcept { return num_blocks() - 1; }
  [[nodiscard]] int reference_count(BlockId block) const;
  [[nodiscard]] bool is_published(BlockId block) const { return published_.contains(block); }

  /// Checks the invariants: free + referenced = total, no block is in both sets or twice in the
  /// free list, the null block is in neither, and each published block is found by its own hash.
  /// Returns an empty text, or one sentence that names the broken invariant. O(num_blocks).
  [[nodiscard]] std::string find_broken_invariant() const;

 private:
  struct Block {
    int32_t ref_count = 0;  // stays 0 for the null block
    BlockId prev{};         // links of the free list, a ring through the null block
    BlockId next{};
  };

  [[nodiscard]] size_t checked_index(BlockId block) const;
  Block& at(BlockId block) { return blocks_[static_cast<size_t>(block)]; }
  void link_before(BlockId block, BlockId next);
  void unlink(BlockId block);

  int block_size_;
  std::vector<Block> blocks_;
  PrefixIndex published_;
  int num_free_ = 0;
};

}  // namespace reprise::kv_cache
