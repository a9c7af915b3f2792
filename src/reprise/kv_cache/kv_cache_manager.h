#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/kv_cache/state_slot_pool.h"
#include "reprise/kv_cache/state_snapshots.h"

namespace reprise::kv_cache {

/// The blocks of one request, in token order: token t has slot t % block_size of block number t /
/// block_size in the list. Each request has one table, and only a KvCacheManager changes it. The
/// table is move-only, because a copy would be a second owner of the same blocks.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;
  BlockTable(BlockTable&& other) noexcept
      : blocks_(std::move(other.blocks_)),
        num_encoder_blocks_(other.num_encoder_blocks_),
        num_published_(std::exchange(other.num_published_, 0)),
        state_slot_(std::exchange(other.state_slot_, kNullStateSlot)) {}
  BlockTable& operator=(BlockTable&& other) noexcept {
    blocks_ = std::move(other.blocks_);
    num_published_ = std::exchange(other.num_published_, 0);
    num_encoder_blocks_ = other.num_encoder_blocks_;
    state_slot_ = std::exchange(other.state_slot_, kNullStateSlot);
    return *this;
  }

  [[nodiscard]] std::span<const BlockId> block_ids() const noexcept {
    return blocks_.empty() ? std::span<const BlockId>()
                           : std::span(blocks_).subspan(num_encoder_blocks_);
  }
  /// The blocks of the encoder's text, which the request keeps as long as its other blocks. Empty:
  /// the model has no encoder.
  [[nodiscard]] std::span<const BlockId> encoder_block_ids() const noexcept {
    return blocks_.empty() ? std::span<const BlockId>()
                           : std::span(blocks_).first(num_encoder_blocks_);
  }
  [[nodiscard]] int num_blocks() const noexcept { return static_cast<int>(block_ids().size()); }
  [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }
  /// The slot that holds the states after the request's computed tokens. The request's other slots
  /// form a circle with it. The null slot: the request has no slots.
  [[nodiscard]] StateSlot state_slot() const noexcept { return state_slot_; }

 private:
  friend class KvCacheManager;
  std::vector<BlockId> blocks_;  // those of the encoder's text first
  size_t num_encoder_blocks_ = 0;
  int num_published_ = 0;  // how many blocks from the start were published
  StateSlot state_slot_ = kNullStateSlot;
};

/// The result of asking for slots. `no_blocks` is not an error: the scheduler then preempts a
/// request or waits.
enum class [[nodiscard]] SlotResult { allocated, no_blocks };

enum class PrefixCaching : uint8_t { off, on };

/// Gives cache slots to requests, one block at a time, and state slots to each if the model has
/// recurrent layers. Owned by the owner of the scheduler. Not
/// thread-safe. Allocates no heap memory for a request whose final length was passed to reserve().
///
/// Prefix caching: when the keys and values of a full block are computed, the block is published
/// under its hash. Later requests with the same prefix and PrefixKey find it and share it. A shared
/// block is never written again, because only full blocks are shared, and each request writes its
/// new tokens to its own blocks. A request frees its last block first, so the pool evicts the end
/// of a prefix before its beginning.
///
/// A request can use a cached prefix of a model with recurrent layers only up to a block with a
/// snapshot: a copy of the states after its last token. A snapshot is forgotten with its block.
class KvCacheManager {
 public:
  /// `num_state_reqs`: requests that may hold states at the same time; 0: the model has no
  /// recurrent layers. `num_snapshots`: cached copies of states, which such a model needs for
  /// prefix caching. `slots_per_req`: see StateSlotPool.
  /// \throws InvalidArgument under the same conditions as BlockPool
  explicit KvCacheManager(int num_blocks,
                          int block_size = kDefaultBlockSize,
                          PrefixCaching prefix_caching = PrefixCaching::off,
                          int num_state_reqs = 0,
                          int num_snapshots = 0,
                          int slots_per_req = 1);

  /// Allocates the memory of the table for `num_tokens` tokens, so that it can grow to that length
  /// without further allocation. `num_encoder_tokens`: the first blocks of the table will be those
  /// of an encoder's text of this many tokens.
  void reserve(BlockTable& table, int num_tokens, int num_encoder_tokens = 0) const;
  /// Adds blocks to the table until it has slots for tokens [0, num_tokens), and state slots if
  /// it has none. Adds all that is missing or nothing. Does nothing if the table is already long
  /// enough.
  SlotResult allocate_slots(BlockTable& table, int num_tokens);

  /// Makes the hash chain of a new request. It stays empty if prefix caching is off.
  [[nodiscard]] BlockHashChain make_chain(const PrefixKey& key) const;
  /// How many blocks from the start of a chain are in the cache.
  struct CachedPrefix {
    int num_blocks = 0;
    // How many of them are free; using the prefix takes these from the free blocks.
    int num_free_blocks = 0;
    // The number of cached blocks, including those after the last snapshot. Without recurrent
    // layers it is the same as num_cached_blocks.
    int num_blocks_without_states = 0;
    // The snapshot of the states after the prefix. The null slot without recurrent layers.
    StateSlot snapshot = kNullStateSlot;
  };
  [[nodiscard]] CachedPrefix find_prefix(const BlockHashChain& chain, int max_blocks) const;
  /// Like allocate_slots() for an empty table, but the table starts with the cached blocks of
  /// `prefix`.
  /// \pre find_prefix() returned `prefix` for this chain, and the cache has not changed since
  SlotResult allocate_slots_after(BlockTable& table,
                                  const BlockHashChain& chain,
                                  const CachedPrefix& prefix,
                                  int num_tokens);
  /// Lets other requests find the full blocks of the table. Called when tokens [0,
  /// num_computed_tokens) are computed. `source` is for a listener only.
  /// \pre the chain has hashes for them
  void publish(BlockTable& table,
               const BlockHashChain& chain,
               int num_computed_tokens,
               const BlockSource& source = {});
  /// Lets no later request find the blocks of the table or snapshots of the chain, because their
  /// content may be wrong.
  void unpublish(BlockTable& table, const BlockHashChain& chain = {});

  /// Whether cached prefixes need copies of states.
  [[nodiscard]] bool has_snapshots() const noexcept { return snapshots_ != nullptr; }
  /// A slot to which the next step copies states; the null slot if all snapshots are being written.
  /// \pre has_snapshots()
  [[nodiscard]] StateSlot begin_snapshot() { return snapshots_->begin(); }
  /// Lets later requests find a snapshot that was begun. The snapshot is dropped if its block is
  /// not cached.
  void publish_snapshot(StateSlot slot, const BlockHash& hash);
  /// For a snapshot that the step did not write, or whose content may be wrong.
  void drop_snapshot(StateSlot slot) { snapshots_->drop(slot); }
  /// Forgets the snapshot with this hash, because a later snapshot replaces it.
  void forget_snapshot(const BlockHash& hash) { snapshots_->forget(hash); }
  [[nodiscard]] bool has_snapshot(const BlockHash& hash) const {
    return snapshots_ != nullptr && snapshots_->find(hash).has_value();
  }
  [[nodiscard]] int num_snapshots() const noexcept {
    return snapshots_ == nullptr ? 0 : snapshots_->num_snapshots();
  }
  [[nodiscard]] int num_published_snapshots() const noexcept {
    return snapshots_ == nullptr ? 0 : snapshots_->num_published();
  }
  [[nodiscard]] int num_begun_snapshots() const noexcept {
    return snapshots_ == nullptr ? 0 : snapshots_->num_begun();
  }
  /// Removes all hashes, so that no cached prefix is found. If any block is in use, changes nothing
  /// and returns false, as in vLLM.
  [[nodiscard]] bool reset_prefix_cache();
  /// Sets a listener, which is told of all changes of the prefixes that can be found. Borrowed;
  /// nullptr: none.
  void set_listener(CacheListener* listener) noexcept {
    listener_ = listener;
    pool_.set_listener(listener);
  }
  [[nodiscard]] PrefixCaching prefix_caching() const noexcept { return prefix_caching_; }
  /// Number of blocks with a hash, in use or free.
  [[nodiscard]] int num_published_blocks() const noexcept { return pool_.num_published_blocks(); }

  /// Whether a block is found by this hash.
  [[nodiscard]] bool is_published(const BlockHash& hash) const {
    return pool_.find(hash).has_value();
  }

  /// Releases all blocks of the table, and its state slots. The table keeps its allocated memory.
  void free(BlockTable& table);

  /// How many of the first `most` blocks are the same in two tables.
  [[nodiscard]] static int num_common_prefix_blocks(const BlockTable& a,
                                                    const BlockTable& b,
                                                    int most) noexcept;
  /// Whether more than one table may have the block.
  [[nodiscard]] bool is_shared(BlockId block) const { return pool_.reference_count(block) > 1; }

  [[nodiscard]] static std::span<const BlockId> block_ids(const BlockTable& table) noexcept {
    return table.block_ids();
  }
  [[nodiscard]] int num_blocks() const noexcept { return pool_.num_blocks(); }
  [[nodiscard]] int block_size() const noexcept { return pool_.block_size(); }
  [[nodiscard]] int num_free_blocks() const noexcept { return pool_.num_free_blocks(); }
  /// The number of requests that can still get state slots.
  [[nodiscard]] int num_free_state_reqs() const noexcept { return states_.num_free(); }
  [[nodiscard]] int state_slots_per_req() const noexcept { return states_.slots_per_req(); }
  /// Moves the request's state slot `count` places on, because this many drafts were accepted. Has
  /// no effect without recurrent layers.
  void advance_states(BlockTable& table, int count) const noexcept;
  [[nodiscard]] static int num_encoder_blocks(const BlockTable& table) noexcept {
    return static_cast<int>(table.num_encoder_blocks_);
  }
  /// The number of blocks that hold `num_tokens` slots.
  [[nodiscard]] int blocks_for(int num_tokens) const noexcept;
  /// The largest number of slots that one request can have, if it owns all usable blocks.
  [[nodiscard]] int64_t capacity_tokens() const noexcept {
    return static_cast<int64_t>(pool_.num_usable_blocks()) * pool_.block_size();
  }
  /// The share of usable blocks that are in use, 0 to 1.
  [[nodiscard]] double usage() const noexcept;

  /// Checks the pools, and checks that each block has as many references as there are entries for
  /// it in `tables` (all tables that exist). Returns an empty text or one sentence. For tests;
  /// allocates.
  [[nodiscard]] std::string find_broken_invariant(std::span<const BlockTable* const> tables) const;

 private:
  void report_stored(const BlockHashChain& chain, int from, int to, const BlockSource& source);
  [[nodiscard]] std::string find_broken_state_slot(std::span<const BlockTable* const> tables) const;

  BlockPool pool_;
  StateSlotPool states_;
  std::unique_ptr<StateSnapshots> snapshots_;  // nullptr: cached prefixes hold no states
  PrefixCaching prefix_caching_;
  CacheListener* listener_ = nullptr;
};

}  // namespace reprise::kv_cache
