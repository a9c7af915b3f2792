#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_pool.h"

namespace reprise::kv_cache {

/// The blocks of one request, in token order: token t lives in slot t % block_size of entry
/// t / block_size. A member of the request; only a KvCacheManager changes it. Moves, never copies:
/// two tables with the same blocks would be two owners.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  BlockTable(BlockTable&&) noexcept = default;
  BlockTable& operator=(BlockTable&&) noexcept = default;

  [[nodiscard]] std::span<const BlockId> block_ids() const noexcept { return blocks_; }
  [[nodiscard]] int num_blocks() const noexcept { return static_cast<int>(blocks_.size()); }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }

 private:
  friend class KvCacheManager;
  std::vector<BlockId> blocks_;
};

/// The answer to a request for slots. `no_blocks` is a normal value: preempt someone or wait.
enum class [[nodiscard]] SlotResult{allocated, no_blocks};

/// Hands cache slots to requests, a block at a time. Owned by the scheduler's owner; not
/// thread-safe; no heap allocation once `reserve` was called for a request's final length.
class KvCacheManager {
 public:
  /// \throws InvalidArgument as BlockPool.
  explicit KvCacheManager(int num_blocks, int block_size = kDefaultBlockSize)
      : pool_(num_blocks, block_size) {}

  /// Makes later growth of this table up to `num_tokens` free of heap allocation.
  void reserve(BlockTable& table, int num_tokens) const;
  /// Grows the table until it has slots for tokens [0, num_tokens). All or nothing; a table that is
  /// long enough is left alone.
  SlotResult allocate_slots(BlockTable& table, int num_tokens);
  /// Gives all blocks of the table back; the table keeps its storage.
  void free(BlockTable& table);

  [[nodiscard]] static std::span<const BlockId> block_ids(const BlockTable& table) noexcept {
    return table.block_ids();
  }
  [[nodiscard]] int num_blocks() const noexcept { return pool_.num_blocks(); }
  [[nodiscard]] int block_size() const noexcept { return pool_.block_size(); }
  [[nodiscard]] int num_free_blocks() const noexcept { return pool_.num_free_blocks(); }
  /// Blocks needed for `num_tokens` slots.
  [[nodiscard]] int blocks_for(int num_tokens) const noexcept;
  /// Slots one request could ever have: every usable block.
  [[nodiscard]] int64_t capacity_tokens() const noexcept {
    return static_cast<int64_t>(pool_.num_usable_blocks()) * pool_.block_size();
  }
  /// Share of usable blocks that are taken, 0..1.
  [[nodiscard]] double usage() const noexcept;

  /// Empty when the pool is consistent and `tables` (all live ones) own each referenced block
  /// exactly as often as it is counted; otherwise one sentence. For tests; allocates.
  [[nodiscard]] std::string find_broken_invariant(std::span<const BlockTable* const> tables) const;

 private:
  BlockPool pool_;
};

}  // namespace reprise::kv_cache
