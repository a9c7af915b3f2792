#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_id.h"

namespace reprise::kv_cache {

/// Maps hashes to blocks. A hash maps to at most one block: the first that was inserted. It is a
/// hash table of fixed size (open addressing, at most half full), so steps never allocate. Not
/// thread-safe; owned by a BlockPool.
class PrefixIndex {
 public:
  /// Makes an index for blocks [0, num_blocks).
  explicit PrefixIndex(int num_blocks);

  [[nodiscard]] std::optional<BlockId> find(const BlockHash& hash) const;
  /// Inserts a hash. Returns false and changes nothing if another block has this hash.
  /// \pre the block has no hash
  bool insert(const BlockHash& hash, BlockId block);
  /// Removes the block's hash, if it has one.
  void erase(BlockId block);
  void clear();

  [[nodiscard]] bool contains(BlockId block) const { return has_hash_[index(block)]; }
  /// \pre the block has a hash
  [[nodiscard]] const BlockHash& hash_of(BlockId block) const { return hashes_[index(block)]; }
  [[nodiscard]] int size() const noexcept { return size_; }

  /// Checks that find() returns each block with a hash for that hash, and never another block.
  /// Returns an empty text or one sentence.
  [[nodiscard]] std::string find_broken_invariant() const;

 private:
  static constexpr BlockId kEmpty{-1};
  static size_t index(BlockId block) { return static_cast<size_t>(block); }
  [[nodiscard]] size_t home(const BlockHash& hash) const;
  [[nodiscard]] size_t next(size_t place) const { return (place + 1) & mask_; }
  /// The place where `hash` is stored or, if it is not stored, the empty place where it belongs.
  [[nodiscard]] size_t place_of(const BlockHash& hash) const;

  std::vector<BlockHash> hashes_;  // by block
  std::vector<bool> has_hash_;     // by block
  std::vector<BlockId> table_;     // by place
  size_t mask_;                    // number of places - 1; the number of places is a power of two
  int size_ = 0;
};

}  // namespace reprise::kv_cache
