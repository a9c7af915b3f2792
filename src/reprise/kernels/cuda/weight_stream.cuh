#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/linear_arguments.h"

namespace reprise::kernels::cuda {

// kStepDepth: the depth that four lanes load for a pair of fragments, eight neighbours each.
// kStretchDepth: the depth that a warp computes before the next warp's turn, one memory line of
// each column.
inline constexpr int kStepDepth = 32;
inline constexpr int kStretchDepth = 64;

/// The weights of a warp's part of a block's tiles, in the order of their use. A ring in shared
/// memory keeps kRingBytes of a warp's loads in flight. Every lane writes and reads only its own
/// words of the ring, so no thread waits for another.
///
/// The order of the depth is the same for all kParts and kHalves: warp s % kLinearWarps computes
/// stretch s.
template <typename T, int kParts, int kHalves, int kRingBytes = kWarpRingBytes>
class WeightStream {
 public:
  static constexpr int kSteps = kParts * kHalves >= 4 || kParts == 2 ? 1 : 2;  // in one slot
  static constexpr int kLoads = kSteps * kParts * kHalves;
  static constexpr int kSlots = kRingBytes / (kLoads * kWarpSize * 16);
  static_assert(kSlots * kLoads * kWarpSize * 16 == kRingBytes);

  struct Slot {
    Words4 words[kSteps][kParts][kHalves];
  };

  /// `ring` is the ring of the whole block. `column_of(tile, column of the tile)` gives a column of
  /// the product.
  template <typename ColumnOf>
  REPRISE_DEVICE WeightStream(const LinearArguments& a,
                              int tile_rows,
                              const ColumnOf& column_of,
                              int64_t num_tiles,
                              char* ring)
      : ring_(ring + (warp_index() * kRingBytes + lane_index() * 16)),
        depth_(static_cast<int>(a.depth)),
        num_chunks_(chunks_of(a.depth)),
        uses_of_tile_(static_cast<int>(ceil_div(a.rows, tile_rows)) * num_chunks_),
        num_tiles_(num_tiles),
        tile_(block_index()) {
    find_columns(a, column_of);
    for (int slot = 0; slot < kSlots; ++slot) fetch(a, column_of);
  }

  /// The number of slots for one tile and one set of rows.
  [[nodiscard]] REPRISE_DEVICE int num_chunks() const { return num_chunks_; }

  /// The start, along the depth, of the calling lane's eight neighbours in a step of a chunk.
  [[nodiscard]] REPRISE_DEVICE static int depth_of(int chunk, int step) {
    constexpr int kChunks = 2 / kSteps;  // of one stretch
    const int stretch = chunk / kChunks * kLinearWarps + warp_index();
    return stretch * kStretchDepth + (chunk % kChunks * kSteps + step) * kStepDepth +
           lane_index() % 4 * 8;
  }

  /// Waits for the next words and returns them. Call fetch() after their use.
  REPRISE_DEVICE Slot take() {
    wait_for_copies<kSlots - 1>();
    Slot slot;
    const char* from = slot_address();
    REPRISE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        REPRISE_UNROLL
        for (int half = 0; half < kHalves; ++half) {
          slot.words[step][part][half] = load_words(from + offset_of(step, part, half));
        }
      }
    }
    return slot;
  }

  /// Starts the load of the words that are due after one round of the ring.
  template <typename ColumnOf>
  REPRISE_DEVICE void fetch(const LinearArguments& a, const ColumnOf& column_of) {
    if (tile_ < num_tiles_) {
      char* to = slot_address();
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        const int k = depth_of(chunk_, step);
        REPRISE_UNROLL
        for (int half = 0; half < kHalves; ++half) {
          REPRISE_UNROLL
          for (int part = 0; part < kParts; ++part) {
            const bool there = k < depth_ && is_column_[half];
            copy_words_async(
                to + offset_of(step, part, half), columns_[part][half] + (there ? k : 0), there);
          }
        }
      }
      if (++chunk_ == num_chunks_) chunk_ = 0;
      if (++uses_ == uses_of_tile_) {
        uses_ = 0;
        tile_ += grid_size();
        find_columns(a, column_of);
      }
    }
    commit_copies();
    if (++slot_ == kSlots) slot_ = 0;
  }

 private:
  static REPRISE_DEVICE int chunks_of(int64_t depth) {
    return static_cast<int>(ceil_div(depth, kStretchDepth * kLinearWarps)) * (2 / kSteps);
  }
  static REPRISE_DEVICE int offset_of(int step, int part, int half) {
    return ((step * kParts + part) * kHalves + half) * kWarpSize * 16;
  }
  [[nodiscard]] REPRISE_DEVICE char* slot_address() const {
    return ring_ + slot_ * (kLoads * kWarpSize * 16);
  }
  /// For a column beyond the last, the words are zeros.
  template <typename ColumnOf>
  REPRISE_DEVICE void find_columns(const LinearArguments& a, const ColumnOf& column_of) {
    REPRISE_UNROLL
    for (int half = 0; half < kHalves; ++half) {
      const int64_t column = column_of(tile_, lane_index() / 4 + half * kFragmentColumns);
      is_column_[half] = column < a.columns;
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        columns_[part][half] = static_cast<const T*>(a.weight) +
                               (is_column_[half] ? part * a.columns + column : 0) * a.depth;
      }
    }
  }

  char* ring_;  // the calling lane's words of the first slot's first load
  int depth_;
  int num_chunks_;
  int uses_of_tile_;  // in slots: the tile's chunks, once for each set of rows
  int64_t num_tiles_;
  // The position of the next load.
  int64_t tile_;
  int chunk_ = 0;
  int uses_ = 0;
  int slot_ = 0;
  const T* columns_[kParts][kHalves];
  bool is_column_[kHalves];
};

}  // namespace reprise::kernels::cuda
