#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_pool.h"

namespace reprise::kv_cache {

/// The blocks of one request, in token order: token t lives in slot t % block_size of entry t /
/// block_size. The table is a member of the request, and only a KvCacheManager changes it. It is
/// move-only: two tables with the same blocks would be two owners.
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
  int num_published_ = 0;  // leading blocks that were published
};

/// The answer to a request for slots. `no_blocks` is a normal value: the scheduler then preempts a
/// request or waits.
enum class [[nodiscard]] SlotResult { allocated, no_blocks };

enum class PrefixCaching : uint8_t { off, on };

/// Hands cache slots to requests, a block at a time. Owned by the scheduler's owner; not
/// thread-safe; no heap allocation once `reserve` was called for a request's final length.
///
/// Prefix caching: full blocks whose keys and values were computed are published under their hash
/// and found by later requests with the same prefix and key. A shared block is never written again:
/// only whole blocks are shared, and each request writes new tokens to its own blocks. A request
/// frees its last block first, so the end of a prefix is evicted before its beginning.
class KvCacheManager {
 public:
  /// \throws InvalidArgument as BlockPool.
  explicit KvCacheManager(int num_blocks,
                          int block_size = kDefaultBlockSize,
                          PrefixCaching prefix_caching = PrefixCaching::off)
      : pool_(num_blocks, block_size), prefix_caching_(prefix_caching) {}

  /// Makes later growth of this table up to `num_tokens` free of heap allocation.
  void reserve(BlockTable& table, int num_tokens) const;
  /// Grows the table until it has slots for tokens [0, num_tokens). Either all missing blocks are
  /// added or none. A table that is long enough stays unchanged.
  SlotResult allocate_slots(BlockTable& table, int num_tokens);

  /// The chain of hashes of a new request; it stays empty when prefix caching is off.
  [[nodiscard]] BlockHashChain make_chain(const PrefixKey& key) const;
  /// Leading blocks of the chain that are in the cache, at most `max_blocks`.
  struct CachedPrefix {
    int num_blocks = 0;
    int num_free_blocks = 0;  // the free ones among them, which taking uses up
  };
  [[nodiscard]] CachedPrefix find_prefix(const BlockHashChain& chain, int max_blocks) const;
  /// Works like allocate_slots() for an empty table, whose first blocks become the blocks of
  /// `prefix`.
  /// \pre find_prefix() gave `prefix` for this chain, and the cache is unchanged since.
  SlotResult allocate_slots_after(BlockTable& table,
                                  const BlockHashChain& chain,
                                  const CachedPrefix& prefix,
                                  int num_tokens);
  /// Lets other requests find the full blocks of the table, now that tokens [0,
  /// num_computed_tokens) are computed. \pre the chain covers them
  void publish(BlockTable& table, const BlockHashChain& chain, int num_computed_tokens);
  /// Makes the table's blocks impossible to find, because their content is in doubt.
  void unpublish(BlockTable& table);
  /// Forgets all cached prefixes. While any block is in use, it changes nothing and returns false,
  /// like vLLM.
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
  /// Most slots that one request can have: those of every usable block.
  [[nodiscard]] int64_t capacity_tokens() const noexcept {
    return static_cast<int64_t>(pool_.num_usable_blocks()) * pool_.block_size();
  }
  /// Share of usable blocks that are taken, 0..1.
  [[nodiscard]] double usage() const noexcept;

  /// Checks that the pool is consistent and that `tables` (all live ones) own each referenced block
  /// exactly as often as it is counted. Returns an empty text or one sentence. For tests;
  /// allocates.
  [[nodiscard]] std::string find_broken_invariant(std::span<const BlockTable* const> tables) const;

 private:
  BlockPool pool_;
  PrefixCaching prefix_caching_;
};

}  // namespace reprise::kv_cache
