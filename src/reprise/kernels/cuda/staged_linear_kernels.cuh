#pragma once

#include "reprise/kernels/cuda/linear_kernels.cuh"

// Matrix products of 9 to 32 rows. A tile has 32 rows of the weight, so that x is read half as
// often as with tiles of sixteen, and x passes through shared memory, so that no multiplication
// waits for the second-level cache. The order of a sum is that of linear_kernels.cuh.
namespace reprise::kernels::cuda {

inline constexpr int kStagedTiles = kMostTileRows / kFragmentRows;
/// Weights and x share a warp's ring.
inline constexpr int kStagedRingBytes = kWarpRingBytes / 2;

/// The rows of x that a warp's products need, in the order of their use: one step of the depth
/// after the other, for each set of rows, for each tile of columns. Every lane writes and reads
/// only its own words.
template <typename T, typename Weights>
class RowStream {
 public:
  static constexpr int kSlots = Weights::kSlots;
  static constexpr int kSlotBytes = kStagedTiles * kWarpSize * 16;
  static_assert(Weights::kSteps == 1 && kSlots * kSlotBytes <= kStagedRingBytes);

  /// `ring` is the ring of the whole block. Rows from `limit` on are zeros.
  REPRISE_DEVICE RowStream(const LinearArguments& a, int64_t limit, int num_chunks, char* ring)
      : x_(static_cast<const T*>(a.x)),
        stride_(a.x_stride),
        rows_(a.rows),
        limit_(limit),
        depth_(static_cast<int>(a.depth)),
        num_chunks_(num_chunks),
        ring_(ring + (warp_index() * kStagedRingBytes + lane_index() * 16)) {
    for (int slot = 0; slot < kSlots; ++slot) fetch();
    commit_copies();
  }

  /// Eight neighbouring elements of a row of fragment `t`, for the next step that multiplies them.
  [[nodiscard]] REPRISE_DEVICE Words4 words(int t) const {
    return load_words(ring_ + (slot_ * kSlotBytes + t * kWarpSize * 16));
  }

  /// Starts the copy of the words that are needed one round of the ring later, after the words in
  /// their place were used. The caller closes the group of copies.
  REPRISE_DEVICE void fetch() {
    const int k = Weights::depth_of(chunk_, 0);
    REPRISE_UNROLL
    for (int t = 0; t < kStagedTiles; ++t) {
      const int64_t row = first_row_ + t * kFragmentRows + lane_index() / 4;
      const bool there = row < limit_ && k < depth_;
      copy_words_async(ring_ + (slot_ * kSlotBytes + t * kWarpSize * 16),
                       x_ + (there ? row * stride_ + k : 0),
                       there);
    }
    if (++slot_ == kSlots) slot_ = 0;
    if (++chunk_ < num_chunks_) return;
    chunk_ = 0;
    first_row_ += kMostTileRows;
    if (first_row_ >= rows_) first_row_ = 0;
  }

 private:
  const T* x_;
  int64_t stride_;
  int64_t rows_;
  int64_t limit_;
  int depth_;
  int num_chunks_;
  char* ring_;  // the calling lane's words of the first slot's first fragment
  // The position of the next copy.
  int64_t first_row_ = 0;
  int chunk_ = 0;
  int slot_ = 0;
};

/// Computes what linear_fragments computes, but has no norm in front. kHalves is 2 for
/// silu_and_mul, which has two parts, and 4 for the others.
template <typename T, typename Out, int kHalves, Epilogue kEpilogue>
REPRISE_DEVICE void staged_linear_fragments(const CudaLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  constexpr int kPairs = kHalves / 2;  // fragments of sixteen columns
  constexpr int kTileColumns = kHalves * kFragmentColumns;
  using Weights = WeightStream<T, kParts, kHalves, kStagedRingBytes>;
  using Sums = TileSums<kHalves, kStagedTiles, kParts>;
  constexpr int kRows = Sums::kRows;
  constexpr int kResults = Sums::kPartSize / (kEpilogue == Epilogue::rope_kv_write ? 2 : 1);
  const LinearArguments& a = arguments.product;
  const auto column_of = [&](int64_t tile, int j) {
    return tile_column<kEpilogue, kTileColumns>(arguments, tile, j);
  };
  const int64_t num_tiles = ceil_div(a.columns, kTileColumns);
  char* ring_of_x = shared_memory() + kLinearWarps * kStagedRingBytes;
  Weights weights(a, kRows, column_of, num_tiles, shared_memory());
  auto* shared = reinterpret_cast<float*>(ring_of_x + kLinearWarps * kStagedRingBytes);
  wait_for_earlier_kernels();
  const int64_t limit = row_limit(a);
  if (limit <= 0) {
    wait_for_copies<0>();
    return;
  }
  RowStream<T, Weights> rows(a, limit, weights.num_chunks(), ring_of_x);
  // The first copies of x were started after all first copies of weights. From here on, each group
  // contains copies of both.
  wait_for_copies<0>();

  for (int64_t tile = block_index(); tile < num_tiles; tile += grid_size()) {
    for (int64_t first_row = 0; first_row < a.rows; first_row += kRows) {
      float sums[kParts * kPairs][kStagedTiles][4] = {};
      for (int chunk = 0; chunk < weights.num_chunks(); ++chunk) {
        const typename Weights::Slot slot = weights.take();
        REPRISE_UNROLL
        for (int t = 0; t < kStagedTiles; ++t) {
          const Words4 x = rows.words(t);
          REPRISE_UNROLL
          for (int i = 0; i < kParts * kPairs; ++i) {
            const Words4(&halves)[kHalves] = slot.words[0][i / kPairs];
            const Words4 pair[2] = {halves[i % kPairs * 2], halves[i % kPairs * 2 + 1]};
            multiply_step<T, 2>(sums[i][t], pair, x);
          }
        }
        rows.fetch();
        weights.fetch(a, column_of);
      }
      // In memory, fragments of sixteen columns follow each other like whole tiles.
      TileSums<2, kStagedTiles, kParts * kPairs>{shared}.gather(sums);
      for (int i = thread_index(); i < kResults; i += num_threads()) {
        const int64_t column = column_of(tile, i / kRows);
        const int64_t row = first_row + i % kRows;
        if (column >= a.columns || row >= limit) continue;
        ProductResult<T, Out, kEpilogue> result;
        result.load(arguments, row, column);
        store_result(result, arguments, Sums{shared}, i);
      }
    }
  }
  wait_for_copies<0>();
}

}  // namespace reprise::kernels::cuda
