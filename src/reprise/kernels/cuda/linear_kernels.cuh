#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/row_kernels.cuh"

// Products for few rows: the weight streams past once, everything else is small. The order of a
// result's sum depends on the depth alone, so a row has the same bits in any batch.
namespace reprise::kernels::cuda {

enum class Epilogue : int { none, silu_and_mul };

struct LinearTile {
  int64_t column;
  int64_t row;
  int64_t limit;  // rows at and beyond it are not computed
};

/// Neighbouring blocks share their weight rows.
REPRISE_DEVICE LinearTile linear_tile(const LinearArguments& a, int tile_columns, int tile_rows) {
  const int64_t row_tiles = ceil_div(a.rows, tile_rows);
  return {block_index() / row_tiles * tile_columns,
          block_index() % row_tiles * tile_rows,
          a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows)};
}

template <typename T>
REPRISE_DEVICE float with_bias(const LinearArguments& a, int64_t column, float sum) {
  return a.bias == nullptr ? sum : sum + as_float(static_cast<const T*>(a.bias)[column]);
}

/// Stores one result; `sums` has that of the gate and that of up if silu_and_mul follows.
template <typename T, typename Out, Epilogue kEpilogue>
REPRISE_DEVICE void store_product(const CudaLinearArguments& arguments,
                                  int64_t row,
                                  int64_t column,
                                  const float* sums) {
  const LinearArguments& a = arguments.product;
  Out* out = static_cast<Out*>(a.out) + row * a.columns + column;
  const float value = with_bias<T>(a, column, sums[0]);
  if constexpr (kEpilogue == Epilogue::silu_and_mul) {
    // Rounded as storing the product would have rounded them.
    const float gate = rounded<T>(value);
    const float up = rounded<T>(with_bias<T>(a, a.columns + column, sums[1]));
    put(out, silu(gate) * up);
  } else if (arguments.residual != nullptr) {
    const T* residual = static_cast<const T*>(arguments.residual);
    put(out, as_float(residual[row * arguments.residual_stride + column]) + rounded<T>(value));
  } else {
    put(out, value);
  }
}

/// On the tensor cores: kFragmentColumns columns of up to kTiles * kFragmentRows rows. The weight is
/// the left operand, so that few rows of x waste nothing; the warps of the block share the depth.
///
/// A fragment wants two pairs of neighbours along the depth from each lane. A lane reads eight
/// neighbours at once instead and uses them as two fragments' pairs: which step of the depth is
/// which does not matter as long as both operands agree.
/// \pre depth is a multiple of 8; x, its rows and the weight are aligned to 16 bytes
template <typename T, typename Out, int kTiles, Epilogue kEpilogue>
REPRISE_DEVICE void linear_fragments(const CudaLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  constexpr int kStep = 32;  // of the depth: four lanes times eight
  const LinearArguments& a = arguments.product;
  const LinearTile tile = linear_tile(a, kFragmentColumns, kTiles * kFragmentRows);
  if (tile.row >= tile.limit) return;
  const int group = lane_index() / 4;
  const int member = lane_index() % 4;

  const T* weights[kParts][2];
  bool is_column[2];
  REPRISE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int64_t column = tile.column + group + half * 8;
    is_column[half] = column < a.columns;
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      weights[part][half] =
          static_cast<const T*>(a.weight) +
          (part * a.columns + (is_column[half] ? column : tile.column)) * a.depth;
    }
  }
  const T* rows[kTiles];
  bool is_row[kTiles];
  REPRISE_UNROLL
  for (int t = 0; t < kTiles; ++t) {
    const int64_t row = tile.row + t * kFragmentRows + group;
    is_row[t] = row < tile.limit;
    rows[t] = static_cast<const T*>(a.x) + (is_row[t] ? row : tile.row) * a.x_stride;
  }

  float sums[kParts][kTiles][4] = {};
  const Words4 zeros = {{0, 0, 0, 0}};
  const int64_t stride = int64_t{num_warps()} * kStep;
  // Loads of several steps are under way before the first is needed; steps behind the end are zeros.
  constexpr int kAhead = kTiles * kParts == 1 ? 4 : 2;
  for (int64_t first = int64_t{warp_index()} * kStep; first < a.depth; first += kAhead * stride) {
    Words4 w[kAhead][kParts][2];
    REPRISE_UNROLL
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int64_t k = first + ahead * stride + member * 8;
      REPRISE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        REPRISE_UNROLL
        for (int half = 0; half < 2; ++half) {
          w[ahead][part][half] =
              k < a.depth && is_column[half] ? load_words_once(weights[part][half] + k) : zeros;
        }
      }
    }
    REPRISE_UNROLL
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int64_t k = first + ahead * stride + member * 8;
      REPRISE_UNROLL
      for (int t = 0; t < kTiles; ++t) {
        const Words4 x = k < a.depth && is_row[t] ? load_words(rows[t] + k) : zeros;
        REPRISE_UNROLL
        for (int part = 0; part < kParts; ++part) {
          const Words4(&mine)[2] = w[ahead][part];
          REPRISE_UNROLL
          for (int i = 0; i < 4; i += 2) {
            const uint32_t left[4] = {
                mine[0].word[i], mine[1].word[i], mine[0].word[i + 1], mine[1].word[i + 1]};
            const uint32_t right[2] = {x.word[i], x.word[i + 1]};
            multiply_fragments<T>(sums[part][t], left, right);
          }
        }
      }
    }
  }

  // [warp][part][column][row]
  auto* shared = reinterpret_cast<float*>(shared_memory());
  constexpr int kRows = kTiles * kFragmentRows;
  constexpr int kPartSize = kFragmentColumns * kRows;
  REPRISE_UNROLL
  for (int part = 0; part < kParts; ++part) {
    float* mine = shared + (warp_index() * kParts + part) * kPartSize;
    REPRISE_UNROLL
    for (int t = 0; t < kTiles; ++t) {
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        mine[(group + i / 2 * 8) * kRows + t * kFragmentRows + member * 2 + i % 2] = sums[part][t][i];
      }
    }
  }
  sync_block();
  for (int i = thread_index(); i < kPartSize; i += num_threads()) {
    const int64_t column = tile.column + i / kRows;
    const int64_t row = tile.row + i % kRows;
    if (column >= a.columns || row >= tile.limit) continue;
    float totals[kParts];
    REPRISE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      totals[part] = 0;
      for (int warp = 0; warp < num_warps(); ++warp) {
        totals[part] += shared[(warp * kParts + part) * kPartSize + i];
      }
    }
    store_product<T, Out, kEpilogue>(arguments, row, column, totals);
  }
}

/// Any type and depth: a warp takes one column of kDotRows rows.
template <typename T, typename Out, Epilogue kEpilogue>
REPRISE_DEVICE void linear_dots(const CudaLinearArguments& arguments) {
  constexpr int kParts = kEpilogue == Epilogue::silu_and_mul ? 2 : 1;
  const LinearArguments& a = arguments.product;
  const LinearTile tile = linear_tile(a, kDotColumns, kDotRows);
  const int64_t column = tile.column + warp_index();
  if (column >= a.columns) return;
  const int64_t rows = min_of(kDotRows, tile.limit - tile.row);
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(a.x) + (tile.row + r) * a.x_stride;
    float sums[kParts];
    for (int part = 0; part < kParts; ++part) {
      const T* weight = static_cast<const T*>(a.weight) + (part * a.columns + column) * a.depth;
      float sum = 0;
      for_each_columns({lane_index(), kWarpSize}, 0, a.depth, [&](int64_t k, int64_t count) {
        float left[kColumns];
        float right[kColumns];
        load_columns(x + k, count, left);
        load_columns(weight + k, count, right);
        for (int i = 0; i < kColumns; ++i) sum = multiply_add(left[i], right[i], sum);
      });
      sums[part] = warp_sum(sum);
    }
    if (lane_index() == 0) {
      store_product<T, Out, kEpilogue>(arguments, tile.row + r, column, sums);
    }
  }
}

}  // namespace reprise::kernels::cuda
