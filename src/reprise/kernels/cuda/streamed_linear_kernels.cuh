#pragma once

#include "reprise/kernels/cuda/linear_kernels.cuh"
#include "reprise/kernels/cuda/slot_ring.cuh"

// Matrix products of up to eight rows on GPUs with bulk copies. One warp of a block only starts
// copies, and eight warps multiply, so no warp that multiplies waits for copies of its own. The
// ring of copies is filled before the block waits for earlier kernels. The sums have the order of
// linear_kernels.cuh, and so the same bits.
namespace reprise::kernels::cuda {

inline constexpr int kSumBytes = kLinearWarps * kMostTileColumns * kFragmentRows * 4;
inline constexpr int kSlotsOffset = (kSumBytes + kSlotBarrierBytes + 127) / 128 * 128;

/// A ring of slots in shared memory. A slot has kDepth elements of each row of a tile's weight,
/// then of each row of x, then of the norm. Rows that are not copied hold anything: their sums are
/// not used. kHalves * 8: the rows of the weight. Fewer rows are deeper, so that a slot has 16 KiB
/// of the weight, in copies of 1 or 2 KiB.
template <int kHalves>
class SlotRing : public SlotBarriers {
 public:
  static constexpr int kTileRows = kHalves * kFragmentColumns;
  static constexpr int kStretches = 2 / kHalves;  // of each warp
  static constexpr int kDepth = kStretches * kLinearWarps * kStretchDepth;
  /// With a gap, so that the eight lanes that load together from two rows use all banks of shared
  /// memory once.
  static constexpr int kRowBytes = kDepth * 2 + 64;
  static_assert(kRowBytes % 128 == 64);

  REPRISE_DEVICE explicit SlotRing(const CudaLinearArguments& arguments)
      : SlotBarriers(shared_memory() + kSumBytes,
                     static_cast<int>(kStreamedSharedBytes) - kSlotsOffset,
                     (kTileRows + static_cast<int>(arguments.product.rows) +
                      (arguments.norm != nullptr ? 1 : 0)) *
                         kRowBytes) {}

  [[nodiscard]] REPRISE_DEVICE char* row(int slot, int row) const {
    return shared_memory() + (kSlotsOffset + slot * slot_bytes() + row * kRowBytes);
  }
};

/// The rows of the weight that a tile multiplies: two runs of neighbours.
template <Epilogue kEpilogue, int kTileRows>
struct TileRuns {
  static constexpr int kRun = kTileRows / 2;
  /// With silu_and_mul the runs are those of the gate and of up, for the same results.
  static constexpr int kResultColumns = kEpilogue == Epilogue::silu_and_mul ? kRun : kTileRows;
  int64_t first[2];
  int count[2];  // up to the last column

  REPRISE_DEVICE TileRuns(const CudaLinearArguments& arguments, int64_t tile) {
    const int64_t columns = arguments.product.columns;
    REPRISE_UNROLL
    for (int run = 0; run < 2; ++run) {
      if constexpr (kEpilogue == Epilogue::silu_and_mul) {
        first[run] = run * columns + tile * kRun;
      } else {
        first[run] = tile_column<kEpilogue, kTileRows>(arguments, tile, run * kRun);
      }
      const int64_t end = kEpilogue == Epilogue::silu_and_mul ? (run + 1) * columns : columns;
      count[run] = static_cast<int>(min_of(kRun, end > first[run] ? end - first[run] : 0));
    }
  }
  REPRISE_DEVICE static int64_t num_tiles(const LinearArguments& a) {
    return ceil_div(a.columns, kResultColumns);
  }
};

/// The copies of a block's tiles, for SlotFiller.
template <typename T, Epilogue kEpilogue, int kHalves>
class TileCopies {
 public:
  static constexpr bool kHasRows = true;
  using Ring = SlotRing<kHalves>;
  using Runs = TileRuns<kEpilogue, Ring::kTileRows>;

  REPRISE_DEVICE TileCopies(const CudaLinearArguments& arguments, const Ring& ring)
      : arguments_(arguments), ring_(ring), runs_(arguments, block_index()) {}

  REPRISE_DEVICE void begin_tile(int64_t tile) { runs_ = Runs(arguments_, tile); }
  REPRISE_DEVICE void weights(const SlotCursor& at) {
    const LinearArguments& a = arguments_.product;
    PhaseBarrier& full = ring_.full(at.slot);
    const int bytes = bytes_of(at.chunk);
    const int64_t k = int64_t{at.chunk} * Ring::kDepth;
    const bool has_norm = arguments_.norm != nullptr;
    full.arrive_as_warp((runs_.count[0] + runs_.count[1] + (has_norm ? 1 : 0)) * bytes);
    REPRISE_UNROLL
    for (int run = 0; run < 2; ++run) {
      const T* from = static_cast<const T*>(a.weight) + (runs_.first[run] * a.depth + k);
      char* to = ring_.row(at.slot, run * Runs::kRun);
      const int count = runs_.count[run];
      if (count == Runs::kRun) {  // unrolled, because few instructions start a copy
        REPRISE_UNROLL
        for (int i = 0; i < Runs::kRun; ++i) {
          copy_bulk(to + i * Ring::kRowBytes, from, bytes, full);
          from += a.depth;
        }
      } else {
        for (int i = 0; i < count; ++i) {
          copy_bulk(to + i * Ring::kRowBytes, from, bytes, full);
          from += a.depth;
        }
      }
    }
    if (has_norm) {
      char* to = ring_.row(at.slot, Ring::kTileRows + static_cast<int>(a.rows));
      copy_bulk(to, static_cast<const T*>(arguments_.norm) + k, bytes, full);
    }
  }
  REPRISE_DEVICE void rows(const SlotCursor& at, int limit) {
    const LinearArguments& a = arguments_.product;
    PhaseBarrier& full = ring_.full(at.slot);
    const int bytes = bytes_of(at.chunk);
    full.arrive_as_warp(limit * bytes);
    const T* from = static_cast<const T*>(a.x) + int64_t{at.chunk} * Ring::kDepth;
    char* to = ring_.row(at.slot, Ring::kTileRows);
    for (int row = 0; row < limit; ++row) {
      copy_bulk(to, from, bytes, full);
      from += a.x_stride;
      to += Ring::kRowBytes;
    }
  }

 private:
  [[nodiscard]] REPRISE_DEVICE int bytes_of(int chunk) const {
    return static_cast<int>(
               min_of(Ring::kDepth, arguments_.product.depth - int64_t{chunk} * Ring::kDepth)) *
           static_cast<int>(sizeof(T));
  }

  const CudaLinearArguments& arguments_;
  const Ring& ring_;
  Runs runs_;  // of the tile whose weights are copied
};

/// The words of one slot that a lane multiplies.
template <typename T, int kHalves>
struct SlotWords {
  using Ring = SlotRing<kHalves>;
  static constexpr int kStepsOfStretch = kStretchDepth / kStepDepth;
  static constexpr int kSteps = Ring::kStretches * kStepsOfStretch;
  Words4 weights[kSteps][kHalves];
  RowWords rows[kSteps];

  /// `depth`: of the product from the slot on; words beyond it are zeros.
  template <bool kIsWhole>
  REPRISE_DEVICE void load(const char* slot, int num_rows, bool has_norm, int64_t depth) {
    const int group = lane_index() / 4;
    const int first = warp_index() * kStretchDepth + lane_index() % 4 * 8;
    const char* from = slot + first * static_cast<int>(sizeof(T));
    const int row = group < num_rows ? group : num_rows - 1;
    REPRISE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      const int k = step / kStepsOfStretch * kLinearWarps * kStretchDepth +
                    step % kStepsOfStretch * kStepDepth;
      const bool there = kIsWhole || first + k < depth;
      const auto words = [&](int row_of_slot) {
        return there ? load_words(from +
                                  (row_of_slot * Ring::kRowBytes + k * static_cast<int>(sizeof(T))))
                     : Words4{{0, 0, 0, 0}};
      };
      REPRISE_UNROLL
      for (int half = 0; half < kHalves; ++half) {
        weights[step][half] = words(half * kFragmentColumns + group);
      }
      rows[step].x = words(kHalves * kFragmentColumns + row);
      if (has_norm) rows[step].norm = words(kHalves * kFragmentColumns + num_rows);
    }
  }
};

/// The warps that multiply: sums of one tile after the other, and their results.
template <typename T, typename Out, int kHalves, Epilogue kEpilogue>
REPRISE_DEVICE void multiply_slots(const CudaLinearArguments& arguments,
                                   const SlotRing<kHalves>& ring,
                                   int64_t limit) {
  using Ring = SlotRing<kHalves>;
  using Runs = TileRuns<kEpilogue, Ring::kTileRows>;
  using Sums = TileSums<kHalves, 1, 1>;
  constexpr int kResults = Sums::kPartSize / (ProductResult<T, Out, kEpilogue>::kSums == 2 ? 2 : 1);
  static_assert(kResults <= MultiplyingWarps::kThreads);
  const LinearArguments& a = arguments.product;
  const int num_rows = static_cast<int>(a.rows);
  const bool has_norm = arguments.norm != nullptr;
  const Sums sums{reinterpret_cast<float*>(shared_memory())};
  float scale = 0;
  if (has_norm) scale = row_scale<T, MultiplyingWarps>(arguments, limit, sums.shared);

  SlotCursor cursor(a.depth, Ring::kDepth, ring);
  const int64_t num_tiles = Runs::num_tiles(a);
  for (int64_t tile = block_index(); tile < num_tiles; tile += grid_size()) {
    // Each thread has at most one result. Its other inputs are loaded while the weights arrive.
    const Runs runs(arguments, tile);
    const int j = thread_index() / Sums::kRows % Runs::kRun;
    const bool is_first_run = thread_index() / Sums::kRows < Runs::kRun;
    const int64_t row = thread_index() % Sums::kRows;
    const bool has_result = thread_index() < kResults && row < limit &&
                            j < (is_first_run ? runs.count[0] : runs.count[1]);
    ProductResult<T, Out, kEpilogue> result;
    if (has_result) {
      result.load(arguments, row, (is_first_run ? runs.first[0] : runs.first[1]) + j);
    }
    float parts[1][1][4] = {};
    for (int chunk = 0; chunk < cursor.num_chunks; ++chunk) {
      const int64_t depth = a.depth - int64_t{chunk} * Ring::kDepth;
      SlotWords<T, kHalves> words;
      ring.full(cursor.slot).wait(cursor.parity);
      const char* slot = ring.row(cursor.slot, 0);
      if (depth >= Ring::kDepth) {
        words.template load<true>(slot, num_rows, has_norm, depth);
      } else {
        words.template load<false>(slot, num_rows, has_norm, depth);
      }
      sync_warp();  // all lanes have read the slot
      if (lane_index() == 0) ring.empty(cursor.slot).arrive();
      cursor.advance_slot();
      REPRISE_UNROLL
      for (int step = 0; step < SlotWords<T, kHalves>::kSteps; ++step) {
        const Words4 x = has_norm
                             ? normed_words<T>(words.rows[step].x, words.rows[step].norm, scale)
                             : words.rows[step].x;
        multiply_step<T, kHalves>(parts[0][0], words.weights[step], x);
      }
    }
    sums.template gather<MultiplyingWarps>(parts);
    if (has_result) store_result(result, arguments, sums, thread_index());
  }
}

/// Computes what linear_fragments computes for up to eight rows, with the same bits. The block has
/// kStreamedThreads threads. kHalves * 8: the rows of the weight in a tile. \pre as
/// linear_fragments; a.rows is at most kFragmentRows
template <typename T, typename Out, int kHalves, Epilogue kEpilogue>
REPRISE_DEVICE void streamed_linear(const CudaLinearArguments& arguments) {
#if defined(__CUDACC__) && __CUDA_ARCH__ < 900
  __trap();  // no launch chooses this kernel: this code has no bulk copies
#else
  using Copies = TileCopies<T, kEpilogue, kHalves>;
  const LinearArguments& a = arguments.product;
  const SlotRing<kHalves> ring(arguments);
  SlotFiller<Copies> filler(ring,
                            SlotCursor(a.depth, SlotRing<kHalves>::kDepth, ring),
                            Copies::Runs::num_tiles(a),
                            Copies(arguments, ring));
  stream_slots(ring, filler, a, [&](int64_t limit) {
    multiply_slots<T, Out, kHalves, kEpilogue>(arguments, ring, limit);
  });
#endif
}

}  // namespace reprise::kernels::cuda
