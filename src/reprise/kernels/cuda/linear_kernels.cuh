#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/product_result.cuh"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/cuda/weight_stream.cuh"

// Matrix products for few rows: the weight is read once, and all other data is small. The order of
// a result's sum depends only on the depth, so a row has the same bits in any batch.
namespace reprise::kernels::cuda {

/// Rows from this index on are not computed.
REPRISE_DEVICE int64_t row_limit(const LinearArguments& a) {
  return a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
}

/// A column of the product. With rope_kv_write the halves of a tile are the halves of a head, so a
/// tile contains both elements of each pair that rope rotates.
template <Epilogue kEpilogue, int kTileColumns>
REPRISE_DEVICE int64_t tile_column(const CudaLinearArguments& arguments, int64_t tile, int j) {
  if constexpr (kEpilogue == Epilogue::rope_kv_write) {
    constexpr int kHalf = kTileColumns / 2;
    const int64_t head_dim = arguments.to.head_dim;
    const int64_t tiles_per_head = head_dim / kTileColumns;
    return tile / tiles_per_head * head_dim + tile % tiles_per_head * kHalf + j % kHalf +
           j / kHalf * (head_dim / 2);
  } else {
    return tile * kTileColumns + j;
  }
}

/// Computes the bits of sum_of_squares() for aligned rows of whole pieces; the sums of several rows
/// can be started before the first result is needed.
template <typename T>
REPRISE_DEVICE float sum_of_aligned_squares(const T* x, int64_t width, const Team& team) {
  constexpr int kAhead = 4;
  const int64_t stride = int64_t{team.size} * kColumns;
  float squares = 0;
  for (int64_t first = int64_t{team.rank} * kColumns; first < width; first += kAhead * stride) {
    Words4 words[kAhead];
    REPRISE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const int64_t column = first + i * stride;
      words[i] = {{0, 0, 0, 0}};
      if (column < width) words[i] = load_words(x + column);
    }
    REPRISE_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      REPRISE_UNROLL
      for (int j = 0; j < kColumns; ++j) {
        const float value = element_of<T>(words[i], j);
        squares = multiply_add(value, value, squares);
      }
    }
  }
  return squares;
}

/// The threads that multiply are all threads of the block.
struct WholeBlock {
  REPRISE_DEVICE static void sync() { sync_block(); }
};

/// The scale of the norm of the calling lane's row, for up to kMostNormedRows rows, with the bits
/// of rms_norm: the same threads sum the same columns, in the same order. `shared` has room for 9
/// floats per row. All kLinearWarps warps that multiply must call this.
template <typename T, typename Threads = WholeBlock>
REPRISE_DEVICE float row_scale(const CudaLinearArguments& arguments, int64_t limit, float* shared) {
  const LinearArguments& a = arguments.product;
  const int64_t width = a.depth;
  const T* x = static_cast<const T*>(a.x);
  float* scales = shared + kMostNormedRows * kLinearWarps;
  if (width <= kWidestWarpRow) {
    for (int64_t row = warp_index(); row < limit; row += kLinearWarps) {
      const Team team{lane_index(), kWarpSize};
      const float squares = sum_of_aligned_squares(x + row * a.x_stride, width, team);
      const float scale = rms_norm_scale(team.sum(squares), width, arguments.epsilon);
      if (lane_index() == 0) scales[row] = scale;
    }
  } else {
    // The loads of all rows are started before the first row is summed.
    const Team team{thread_index(), kLinearWarps * kWarpSize};
    float squares[kMostNormedRows];
    REPRISE_UNROLL
    for (int row = 0; row < kMostNormedRows; ++row) {
      squares[row] = row < limit ? sum_of_aligned_squares(x + row * a.x_stride, width, team) : 0;
    }
    REPRISE_UNROLL
    for (int row = 0; row < kMostNormedRows; ++row) {
      if (row >= limit) break;
      const float sum = warp_sum(squares[row]);
      if (lane_index() == 0) shared[row * kLinearWarps + warp_index()] = sum;
    }
    Threads::sync();
    const int row = thread_index();
    if (row < limit) {
      float total = 0;
      for (int warp = 0; warp < kLinearWarps; ++warp) total += shared[row * kLinearWarps + warp];
      scales[row] = rms_norm_scale(total, width, arguments.epsilon);
    }
  }
  Threads::sync();
  const int row = lane_index() / 4;
  return row < limit ? scales[row] : 0;
}

/// Eight elements of a norm, rounded the same as by a store.
template <typename T>
REPRISE_DEVICE Words4 normed_words(const Words4& x, const Words4& weight, float scale) {
  Words4 words;
  REPRISE_UNROLL
  for (int j = 0; j < 4; ++j) {
    words.word[j] = pack<T>(element_of<T>(x, 2 * j) * scale * element_of<T>(weight, 2 * j),
                            element_of<T>(x, 2 * j + 1) * scale * element_of<T>(weight, 2 * j + 1));
  }
  return words;
}

/// Words of x as they lie in memory, and those of the norm's weight.
struct RowWords {
  Words4 x;
  Words4 norm;  // only if there is a norm
};

/// The rows of x that a lane loads.
template <typename T, int kTiles>
struct FragmentRows {
  const T* x[kTiles];
  bool is_row[kTiles];
  const T* norm;  // nullptr: none; only with one tile
  float scale;    // of the norm

  REPRISE_DEVICE FragmentRows(
      const LinearArguments& a, int64_t first, int64_t limit, const T* weight, float of_norm)
      : norm(weight), scale(of_norm) {
    REPRISE_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      const int64_t row = first + t * kFragmentRows + lane_index() / 4;
      is_row[t] = row < limit;
      x[t] = static_cast<const T*>(a.x) + (is_row[t] ? row : 0) * a.x_stride;
    }
  }
  /// Starts the load of eight neighbouring elements; zeros beyond the last row and the depth.
  [[nodiscard]] REPRISE_DEVICE RowWords load(int t, int k, int64_t depth) const {
    RowWords words = {{{0, 0, 0, 0}}, {{0, 0, 0, 0}}};
    if (k >= depth || !is_row[t]) return words;
    words.x = load_words(x[t] + k);
    if constexpr (kTiles == 1) {
      if (norm != nullptr) words.norm = load_words(norm + k);
    }
    return words;
  }
  /// The elements of these words that the product reads.
  [[nodiscard]] REPRISE_DEVICE Words4 finish(const RowWords& words) const {
    if constexpr (kTiles == 1) {
      if (norm != nullptr) return normed_words<T>(words.x, words.norm, scale);
    }
    return words.x;
  }
};

/// The x of a chunk. It is loaded one chunk ahead of its use if there are few rows: a load from the
/// second-level cache takes about 0.25 us, and a warp that waited for it in each chunk would leave
/// its weights waiting. With more rows the words of two chunks would not fit into the registers.
template <typename T, int kTiles, typename Stream>
class ChunkRows {
 public:
  static constexpr bool kIsAhead = kTiles == 1;

  /// Starts the load of a tile's first chunk, unless the tile before has the same rows and did so.
  REPRISE_DEVICE void begin(const FragmentRows<T, kTiles>& rows, const LinearArguments& a) {
    if (kIsAhead && !is_loaded_) load(rows, 0, a.depth);
    is_loaded_ = a.rows <= kTiles * kFragmentRows;
  }
  /// Starts the load of a chunk.
  REPRISE_DEVICE void load(const FragmentRows<T, kTiles>& rows, int chunk, int64_t depth) {
    REPRISE_UNROLL
    for (int step = 0; step < Stream::kSteps; ++step) {
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        words_[step][t] = rows.load(t, Stream::depth_of(chunk, step), depth);
      }
    }
  }
  [[nodiscard]] REPRISE_DEVICE const RowWords& words(int step, int t) const {
    return words_[step][t];
  }

 private:
  RowWords words_[Stream::kSteps][kTiles];
  bool is_loaded_ = false;  // the first chunk
};

/// sums += weights x, for one step. The weight is the left operand, so that few rows of x waste no
/// work.
///
/// A fragment takes two pairs of neighbours along the depth from each lane. A lane loads eight
/// neighbours at once and uses them as the pairs of two fragments: the order of the depth may
/// differ from memory if both operands use the same order.
template <typename T, int kHalves>
REPRISE_DEVICE void multiply_step(float (&sums)[4], const Words4 (&w)[kHalves], const Words4& x) {
  REPRISE_UNROLL
  for (int i = 0; i < 4; i += 2) {
    const uint32_t left[4] = {w[0].word[i],
                              kHalves == 2 ? w[kHalves - 1].word[i] : 0,
                              w[0].word[i + 1],
                              kHalves == 2 ? w[kHalves - 1].word[i + 1] : 0};
    const uint32_t right[2] = {x.word[i], x.word[i + 1]};
    multiply_fragments<T>(sums, left, right);
  }
}

/// sums += weights x, over the warp's part of the depth.
template <typename T, int kHalves, int kTiles, int kParts, typename ColumnOf>
REPRISE_DEVICE void multiply_tile(float (&sums)[kParts][kTiles][4],
                                  WeightStream<T, kParts, kHalves>& weights,
                                  const LinearArguments& a,
                                  const ColumnOf& column_of,
                                  const FragmentRows<T, kTiles>& rows,
                                  ChunkRows<T, kTiles, WeightStream<T, kParts, kHalves>>& ahead) {
  using Stream = WeightStream<T, kParts, kHalves>;
  using Rows = ChunkRows<T, kTiles, Stream>;
  ahead.begin(rows, a);
  for (int chunk = 0; chunk < weights.num_chunks(); ++chunk) {
    if constexpr (!Rows::kIsAhead) ahead.load(rows, chunk, a.depth);
    const Rows now = ahead;
    if constexpr (Rows::kIsAhead) {
      ahead.load(rows, chunk + 1 < weights.num_chunks() ? chunk + 1 : 0, a.depth);
    }
    const typename Stream::Slot slot = weights.take();
    REPRISE_UNROLL
    for (int step = 0; step < Stream::kSteps; ++step) {
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        const Words4 x = rows.finish(now.words(step, t));
        REPRISE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          multiply_step<T, kHalves>(sums[part][t], slot.words[step][part], x);
        }
      }
    }
    weights.fetch(a, column_of);
  }
}

/// The warps' sums of a tile, [warp][part][column][row] in shared memory.
template <int kHalves, int kTiles, int kParts>
struct TileSums {
  static constexpr int kRows = kTiles * kFragmentRows;
  static constexpr int kPartSize = kHalves * kFragmentColumns * kRows;
  float* shared;

  /// All threads that multiply must call this.
  template <typename Threads = WholeBlock>
  REPRISE_DEVICE void gather(const float (&sums)[kParts][kTiles][4]) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    Threads::sync();  // all threads have read the previous tile's sums
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      float* mine = shared + (warp_index() * kParts + part) * kPartSize;
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        REPRISE_UNROLL
        for (int i = 0; i < 2 * kHalves; ++i) {
          mine[(group + i / 2 * 8) * kRows + t * kFragmentRows + member * 2 + i % 2] =
              sums[part][t][i];
        }
      }
    }
    Threads::sync();
  }
  [[nodiscard]] REPRISE_DEVICE float total(int part, int item) const {
    float sum = 0;
    REPRISE_UNROLL
    for (int warp = 0; warp < kLinearWarps; ++warp) {
      sum += shared[(warp * kParts + part) * kPartSize + item];
    }
    return sum;
  }
};

/// Stores the i-th result of a tile. The second sum of a result is that of the second part, or it
/// lies half a tile later.
template <typename T, typename Out, Epilogue kEpilogue, int kHalves, int kTiles, int kParts>
REPRISE_DEVICE void store_result(const ProductResult<T, Out, kEpilogue>& result,
                                 const CudaLinearArguments& arguments,
                                 const TileSums<kHalves, kTiles, kParts>& sums,
                                 int i) {
  if constexpr (kParts == 2) {
    result.store(arguments, {sums.total(0, i), sums.total(1, i)});
  } else if constexpr (ProductResult<T, Out, kEpilogue>::kSums == 2) {
    constexpr int kResults = TileSums<kHalves, kTiles, kParts>::kPartSize / 2;
    result.store(arguments, {sums.total(0, i), sums.total(0, kResults + i)});
  } else {
    result.store(arguments, {sums.total(0, i)});
  }
}

/// Uses the tensor cores: a block computes tiles of kHalves * 8 columns and kTiles * 8 rows one
/// after the other. It starts loading its first weights before it waits for earlier kernels. \pre
/// depth is a multiple of 8; x, its rows and the weight are aligned to 16 bytes
template <typename T, typename Out, int kHalves, int kTiles, Epilogue kEpilogue>
REPRISE_DEVICE void linear_fragments(const CudaLinearArguments& arguments) {
  constexpr bool kIsRotated = kEpilogue == Epilogue::rope_kv_write;
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  constexpr int kTileColumns = kHalves * kFragmentColumns;
  using Sums = TileSums<kHalves, kTiles, kParts>;
  constexpr int kRows = Sums::kRows;
  constexpr int kResults = Sums::kPartSize / (kIsRotated ? 2 : 1);
  const LinearArguments& a = arguments.product;
  const auto column_of = [&](int64_t tile, int j) {
    return tile_column<kEpilogue, kTileColumns>(arguments, tile, j);
  };
  const int64_t num_tiles = ceil_div(a.columns, kTileColumns);
  WeightStream<T, kParts, kHalves> weights(a, kRows, column_of, num_tiles, shared_memory());
  auto* shared = reinterpret_cast<float*>(shared_memory() + kLinearWarps * kWarpRingBytes);
  wait_for_earlier_kernels();
  const int64_t limit = row_limit(a);
  if (limit <= 0) {
    wait_for_copies<0>();
    return;
  }
  const T* norm = static_cast<const T*>(arguments.norm);
  float scale = 0;
  if constexpr (kTiles == 1) {
    if (norm != nullptr) scale = row_scale<T>(arguments, limit, shared);
  }

  ChunkRows<T, kTiles, WeightStream<T, kParts, kHalves>> ahead;
  for (int64_t tile = block_index(); tile < num_tiles; tile += grid_size()) {
    for (int64_t first_row = 0; first_row < a.rows; first_row += kRows) {
      ProductResult<T, Out, kEpilogue> result;
      const auto load_result = [&](int i) {
        const int64_t column = column_of(tile, i / kRows);
        const int64_t row = first_row + i % kRows;
        if (i >= kResults || column >= a.columns || row >= limit) return false;
        result.load(arguments, row, column);
        return true;
      };
      // A thread has at most one result here: its other inputs are loaded together with the
      // weights.
      constexpr bool kIsEarly = kTiles == 1;
      static_assert(!kIsEarly || kResults <= kLinearWarps * kWarpSize);
      bool has_result = false;
      if constexpr (kIsEarly) has_result = load_result(thread_index());

      const FragmentRows<T, kTiles> rows(a, first_row, limit, norm, scale);
      float parts[kParts][kTiles][4] = {};
      multiply_tile<T, kHalves, kTiles, kParts>(parts, weights, a, column_of, rows, ahead);
      const Sums sums{shared};
      sums.gather(parts);
      for (int i = thread_index(); i < kResults; i += num_threads()) {
        if constexpr (!kIsEarly) has_result = load_result(i);
        if (!has_result) continue;
        store_result(result, arguments, sums, i);
      }
    }
  }
  wait_for_copies<0>();  // only empty groups remain
}

/// For any type and depth: a warp computes one column of kDotRows rows.
template <typename T, typename Out, Epilogue kEpilogue>
REPRISE_DEVICE void linear_dots(const CudaLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  const LinearArguments& a = arguments.product;
  // Neighbouring blocks share their weight rows.
  const int64_t row_tiles = ceil_div(a.rows, kDotRows);
  const int64_t column = block_index() / row_tiles * kDotColumns + warp_index();
  const int64_t first_row = block_index() % row_tiles * kDotRows;
  if (column >= a.columns) return;
  const int64_t rows = min_of(kDotRows, row_limit(a) - first_row);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(a.x) + (first_row + r) * a.x_stride;
    float sums[kParts];
    for (int part = 0; part < kParts; ++part) {
      const T* weight = static_cast<const T*>(a.weight) + (part * a.columns + column) * a.depth;
      sums[part] = dot(x, weight, a.depth);
    }
    if (lane_index() == 0) {
      ProductResult<T, Out, kEpilogue> result;
      result.load(arguments, first_row + r, column);
      result.store(arguments, sums);
    }
  }
}

}  // namespace reprise::kernels::cuda
