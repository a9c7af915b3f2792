#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::kv_cache {

/// Identity of one KV cache block: row `BlockId` of every layer's cache tensor. The underlying type
/// is what block tables on the device hold.
enum class BlockId : int32_t {};

/// The reserved null block. Never handed out; padding rows of a batch write and read here, so a
/// replayed graph of a larger shape cannot touch a live block.
inline constexpr BlockId kNullBlock{0};

/// vLLM's default: small enough to waste little on a request's last block (mean 8 tokens), large
/// enough that block tables stay short.
inline constexpr int kDefaultBlockSize = 16;  // tokens

/// Which blocks of the KV cache are free and how often each other one is referenced. Integers only;
/// the memory itself belongs to the cache tensors.
///
/// A block is free (count 0) or referenced (count >= 1). `allocate` takes a free block to count 1,
/// `add_reference` and `release` move the count, the last release frees it. Everything is O(1) and
/// nothing allocates after construction. Counts above 1 are for prefix sharing, which no caller
/// does yet. Not thread-safe; owned by the KvCacheManager of one scheduler.
class BlockPool {
 public:
  /// \throws InvalidArgument unless num_blocks >= 2 (null block + 1) and block_size >= 1.
  explicit BlockPool(int num_blocks, int block_size = kDefaultBlockSize);

  /// A free block with one reference, or nothing when all are taken (a normal answer).
  [[nodiscard]] std::optional<BlockId> allocate();
  /// \pre the block is referenced.
  void add_reference(BlockId block);
  /// Drops one reference; the last one frees the block. \pre the block is referenced.
  void release(BlockId block);

  /// Including the null block.
  [[nodiscard]] int num_blocks() const noexcept { return static_cast<int>(ref_counts_.size()); }
  [[nodiscard]] int block_size() const noexcept { return block_size_; }
  [[nodiscard]] int num_free_blocks() const noexcept { return static_cast<int>(free_.size()); }
  /// Blocks that can be handed out at all: num_blocks without the null block.
  [[nodiscard]] int num_usable_blocks() const noexcept { return num_blocks() - 1; }
  [[nodiscard]] int reference_count(BlockId block) const;

  /// Empty when free + referenced = total, no block is in both sets or twice in the free list, and
  /// the null block is in neither; otherwise one sentence that says what is broken. O(num_blocks).
  [[nodiscard]] std::string find_broken_invariant() const;

 private:
  [[nodiscard]] size_t checked_index(BlockId block) const;

  int block_size_;
  std::vector<int32_t> ref_counts_;  // by block; the null block's entry stays 0
  std::vector<BlockId> free_;        // used as a stack: the block freed last is the warmest
};

}  // namespace reprise::kv_cache
