#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_id.h"

namespace reprise::kv_cache {

/// Finds the block that holds the content of a hash: at most one, the first that was added. A hash
/// table of fixed size (open addressing, at most half full), so that the step path never allocates.
/// Not thread-safe; owned by a BlockPool.
class PrefixIndex {
 public:
  /// For blocks [0, num_blocks).
  explicit PrefixIndex(int num_blocks);

  [[nodiscard]] std::optional<BlockId> find(const BlockHash& hash) const;
  /// Returns false and changes nothing when another block has this hash. \pre the block has no hash
  bool insert(const BlockHash& hash, BlockId block);
  /// Has no effect on a block without a hash.
  void erase(BlockId block);
  void clear();

  [[nodiscard]] bool contains(BlockId block) const { return has_hash_[index(block)]; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Checks that each block with a hash, and no other block, is found by it. Returns an empty text
  /// or one sentence.
  [[nodiscard]] std::string find_broken_invariant() const;

 private:
  static constexpr BlockId kEmpty{-1};
  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  [[nodiscard]] size_t home(const BlockHash& hash) const;
  [[nodiscard]] size_t next(size_t place) const { return (place + 1) & mask_; }
  /// The place of `hash`, or the empty place where it would go.
  [[nodiscard]] size_t place_of(const BlockHash& hash) const;

  std::vector<BlockHash> hashes_;  // by block
  std::vector<bool> has_hash_;     // by block
  std::vector<BlockId> table_;     // by place
  size_t mask_;                    // number of places - 1; a power of two
  int size_ = 0;
};

}  // namespace reprise::kv_cache
