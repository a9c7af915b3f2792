#pragma once

#include <optional>
#include <string>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/block_pool.h"
#include "reprise/kv_cache/state_slot_pool.h"

namespace reprise::kv_cache {

/// Tracks the cached copies of recurrent states. A snapshot is the state after the last token of a
/// full block, and the hash of that block finds it. Snapshots lie in state slots after those of
/// requests. No kernel reads or writes a snapshot: a step copies a request's slot to it or from it.
///
/// A snapshot is being written between begin() and publish() or drop(). When no slot is unused,
/// begin() takes the snapshot that was used least recently. O(1), and only the constructor
/// allocates. Not thread-safe; owned by a KvCacheManager.
class StateSnapshots {
 public:
  /// Makes snapshots with the slots first_slot, first_slot + 1, ... \pre num_snapshots >= 1
  StateSnapshots(int first_slot, int num_snapshots);
  StateSnapshots(const StateSnapshots&) = delete;
  StateSnapshots& operator=(const StateSnapshots&) = delete;
  ~StateSnapshots() = default;

  /// A slot for a new snapshot. The null slot if all snapshots are being written.
  [[nodiscard]] StateSlot begin();
  /// Makes find(hash) return the slot, unless another slot has this hash. Then the slot is unused.
  /// \pre begin() gave the slot, and it holds the state that the hash stands for
  void publish(StateSlot slot, const BlockHash& hash);
  /// For a snapshot that was not written. \pre begin() gave the slot
  void drop(StateSlot slot);

  [[nodiscard]] std::optional<StateSlot> find(const BlockHash& hash) const;
  /// Marks the snapshot as used: all other snapshots are reused before it.
  void touch(const BlockHash& hash) { pool_.touch(hash); }
  /// Removes the snapshot with this hash, so that no request finds it.
  void forget(const BlockHash& hash) { pool_.forget(hash); }

  [[nodiscard]] int num_snapshots() const noexcept { return pool_.num_usable_blocks(); }
  [[nodiscard]] int num_published() const noexcept { return pool_.num_published_blocks(); }
  /// Snapshots that are being written.
  [[nodiscard]] int num_begun() const noexcept {
    return pool_.num_usable_blocks() - pool_.num_free_blocks();
  }
  /// The pool that must forget the hashes of blocks that are no longer cached.
  [[nodiscard]] BlockPool& pool() noexcept { return pool_; }
  [[nodiscard]] std::string find_broken_invariant() const { return pool_.find_broken_invariant(); }

 private:
  [[nodiscard]] StateSlot slot_of(BlockId snapshot) const noexcept {
    return StateSlot{static_cast<int32_t>(snapshot) - 1 + first_slot_};
  }
  [[nodiscard]] BlockId snapshot_of(StateSlot slot) const noexcept {
    return BlockId{static_cast<int32_t>(slot) + 1 - first_slot_};
  }

  int first_slot_;
  BlockPool pool_;  // block n, which begins at 1, is slot first_slot_ + n - 1
};

}  // namespace reprise::kv_cache
