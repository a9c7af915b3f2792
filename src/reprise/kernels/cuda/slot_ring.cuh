#pragma once

#include "reprise/kernels/cuda/linear_kernels.cuh"

// Products whose weights arrive by bulk copies: one warp of a block only starts copies, into a ring
// of slots, and kLinearWarps warps multiply. So no warp that multiplies waits for copies of its
// own. The ring is filled before the block waits for earlier kernels.
namespace reprise::kernels::cuda {

inline constexpr int kMostSlots = 16;
inline constexpr int kSlotBarrierBytes = 2 * kMostSlots * 8;

/// The warps that multiply, without the warp that starts copies.
struct MultiplyingWarps {
  static constexpr int kThreads = kLinearWarps * kWarpSize;
  REPRISE_DEVICE static void sync() { sync_first_threads<kThreads>(); }
};

/// The barriers of a ring of slots, and how many slots it has.
class SlotBarriers {
 public:
  /// `memory`: kSlotBarrierBytes of shared memory. `room`: the bytes that the slots may take.
  REPRISE_DEVICE SlotBarriers(char* memory, int room, int slot_bytes)
      : full_(reinterpret_cast<PhaseBarrier*>(memory)),
        slot_bytes_(slot_bytes),
        num_slots_(static_cast<int>(min_of(kMostSlots, room / slot_bytes))) {}

  /// One thread calls this. `arrivals`: at a slot that becomes full, by default of the weights and
  /// of the rows.
  REPRISE_DEVICE void begin(int arrivals = 2) const {
    for (int i = 0; i < num_slots_; ++i) {
      full_[i].begin(arrivals);
      full_[kMostSlots + i].begin(kLinearWarps);
    }
    let_copies_see_barriers();
  }
  [[nodiscard]] REPRISE_DEVICE int num_slots() const { return num_slots_; }
  [[nodiscard]] REPRISE_DEVICE int slot_bytes() const { return slot_bytes_; }
  /// The arrivals of begin(), and the bytes of the copies, end a phase.
  [[nodiscard]] REPRISE_DEVICE PhaseBarrier& full(int slot) const { return full_[slot]; }
  /// One arrival of each warp that multiplies ends a phase.
  [[nodiscard]] REPRISE_DEVICE PhaseBarrier& empty(int slot) const {
    return full_[kMostSlots + slot];
  }

 private:
  PhaseBarrier* full_;
  int slot_bytes_;
  int num_slots_;
};

/// The place of the next slot among all slots that a block uses, in the order of their use: one
/// part of the depth after the other, for one tile after the other.
struct SlotCursor {
  int64_t tile;
  int num_chunks;  // of a tile
  int num_slots;   // of the ring
  int chunk = 0;
  int slot = 0;
  int parity = 0;  // of the phase of the slot's barriers

  /// `slot_depth`: the elements of the depth in a slot.
  REPRISE_DEVICE SlotCursor(int64_t depth, int slot_depth, const SlotBarriers& ring)
      : tile(block_index()),
        num_chunks(static_cast<int>(ceil_div(depth, slot_depth))),
        num_slots(ring.num_slots()) {}
  REPRISE_DEVICE void advance() {
    advance_slot();
    if (++chunk < num_chunks) return;
    chunk = 0;
    tile += grid_size();
  }
  REPRISE_DEVICE void advance_slot() {
    if (++slot < num_slots) return;
    slot = 0;
    parity ^= 1;
  }
};

/// Starts all copies of a block. All lanes of one warp run it and have the same values, so that the
/// compiler keeps addresses in the registers from which bulk copies take them. `Copies` has
///
///   kHasRows              whether slots hold rows of x beside weights; without them there is no
///   rows() begin_tile(tile)      what follows is for this tile, which may be behind the last one
///   weights(cursor)       copies to a slot what no kernel writes, and arrives once
///   rows(cursor, limit)   copies `limit` rows of x to it, and arrives once
template <typename Copies>
class SlotFiller {
 public:
  static constexpr int kArrivals = Copies::kHasRows ? 2 : 1;  // for SlotBarriers::begin()

  REPRISE_DEVICE SlotFiller(const SlotBarriers& ring,
                            const SlotCursor& first,
                            int64_t num_tiles,
                            const Copies& copies)
      : ring_(ring), num_tiles_(num_tiles), copies_(copies), weights_(first), rows_(first) {}

  /// Starts the copies that need nothing from earlier kernels: of weights, into the whole ring.
  REPRISE_DEVICE void fill_ring() {
    for (int i = 0; i < ring_.num_slots() && weights_.tile < num_tiles_; ++i) copy_weights();
  }
  /// Starts all other copies, after the wait for earlier kernels. The block needs only its first
  /// `limit` rows of x.
  REPRISE_DEVICE void go_on(int limit) {
    if constexpr (Copies::kHasRows) {
      while (rows_.tile != weights_.tile || rows_.chunk != weights_.chunk) copy_rows(limit);
    }
    while (weights_.tile < num_tiles_) {
      // The other parity: of the phase before, which ends when the slot's words have been read.
      ring_.empty(weights_.slot).wait(weights_.parity ^ 1);
      copy_weights();
      if constexpr (Copies::kHasRows) copy_rows(limit);
    }
  }
  /// Waits for the copies of fill_ring(), if nothing is to be multiplied.
  REPRISE_DEVICE void drain() {
    for (; rows_.tile != weights_.tile || rows_.chunk != weights_.chunk; rows_.advance()) {
      if constexpr (Copies::kHasRows) ring_.full(rows_.slot).arrive_as_warp(0);
      ring_.full(rows_.slot).wait(rows_.parity);
    }
  }

 private:
  REPRISE_DEVICE void copy_weights() {
    copies_.weights(weights_);
    const int64_t tile = weights_.tile;
    weights_.advance();
    if (weights_.tile != tile) copies_.begin_tile(weights_.tile);
  }
  REPRISE_DEVICE void copy_rows(int limit) {
    copies_.rows(rows_, limit);
    rows_.advance();
  }

  const SlotBarriers& ring_;
  int64_t num_tiles_;
  Copies copies_;       // for the tile of weights_
  SlotCursor weights_;  // the next copy of weights
  SlotCursor rows_;     // the next copy of rows of x
};

/// Runs a block of kStreamedThreads threads: its last warp fills the ring, and the others call
/// multiply(limit) if the product has rows.
template <typename Filler, typename Multiply>
REPRISE_DEVICE void stream_slots(const SlotBarriers& ring,
                                 Filler& filler,
                                 const LinearArguments& arguments,
                                 const Multiply& multiply) {
  const bool copies = shuffle_from(warp_index(), 0) == kLinearWarps;
  if (copies) {
    if (lane_index() == 0) ring.begin(Filler::kArrivals);
    sync_warp();
    filler.fill_ring();
  }
  sync_block();  // the ring's barriers have begun
  wait_for_earlier_kernels();
  const int64_t limit = row_limit(arguments);
  if (limit <= 0) {
    if (copies) filler.drain();
  } else if (copies) {
    filler.go_on(static_cast<int>(limit));
  } else {
    multiply(limit);
  }
}

}  // namespace reprise::kernels::cuda
