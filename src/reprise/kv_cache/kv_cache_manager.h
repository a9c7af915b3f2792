#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
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
  int num_published_ = 0;  // leading blocks that were offered to others
};

/// The answer to a request for slots. `no_blocks` is a normal value: preempt someone or wait.
enum class [[nodiscard]] SlotResult { allocated, no_blocks };

enum class PrefixCaching : uint8_t { off, on };

/// Hands cache slots to requests, a block at a time. Owned by the scheduler's owner; not
/// thread-safe; no heap allocation once `reserve` was called for a request's final length.
///
/// Prefix caching: full blocks whose keys and values were computed are published under their hash
/// and found by later requests with the same prefix and key. A shared block is never written again:
/// only whole blocks are shared, and new tokens go to blocks of one's own. Blocks of a request are
/// freed last first, so that of a prefix the end is evicted before the beginning.
class KvCacheManager {
 public:
  /// \throws InvalidArgument as BlockPool.
  explicit KvCacheManager(int num_blocks,
                          int block_size = kDefaultBlockSize,
                          PrefixCaching prefix_caching = PrefixCaching::off)
      : pool_(num_blocks, block_size), prefix_caching_(prefix_caching) {}

  /// Makes later growth of this table up to `num_tokens` free of heap allocation.
  void reserve(BlockTable& table, int num_tokens) const;
  /// Grows the table until it has slots for tokens [0, num_tokens). All or nothing; a table that is
  /// long enough is left alone.
  SlotResult allocate_slots(BlockTable& table, int num_tokens);

  /// The chain of a new request; one that stays empty when prefix caching is off.
  [[nodiscard]] BlockHashChain make_chain(const PrefixKey& key) const;
  /// Leading blocks of the chain that are in the cache, at most `max_blocks`.
  struct CachedPrefix {
    int num_blocks = 0;
    int num_free_blocks = 0;  // of these: taking them leaves fewer for others
  };
  [[nodiscard]] CachedPrefix find_prefix(const BlockHashChain& chain, int max_blocks) const;
  /// As allocate_slots() for an empty table, whose first blocks become those of `prefix`.
  /// \pre `prefix` is what find_prefix() said of the chain, and nothing happened since.
  SlotResult allocate_slots_after(BlockTable& table,
                                  const BlockHashChain& chain,
                                  const CachedPrefix& prefix,
                                  int num_tokens);
  /// Lets others find the table's blocks that are full, now that tokens [0, num_computed_tokens)
  /// are computed. \pre the chain covers them
  void publish(BlockTable& table, const BlockHashChain& chain, int num_computed_tokens);
  /// Nobody will find the table's blocks any more: their content is in doubt.
  void unpublish(BlockTable& table);
  /// Forgets all cached prefixes. False, and nothing happens, while any block is in use, as vLLM.
  [[nodiscard]] bool reset_prefix_cache();
  [[nodiscard]] PrefixCaching prefix_caching() const noexcept { return prefix_caching_; }
  /// Blocks that a later request could find, in use or free.
  [[nodiscard]] int num_published_blocks() const noexcept { return pool_.num_published_blocks(); }

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
  PrefixCaching prefix_caching_;
};

}  // namespace reprise::kv_cache
