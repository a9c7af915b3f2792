#pragma once

#include "reprise/kernels/add/add_arguments.h"
#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm_arguments.h"
#include "reprise/kernels/gather_rows/gather_rows_arguments.h"
#include "reprise/kernels/rms_norm/rms_norm_arguments.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"

// Ops on rows, with the arguments of the CPU kernels of the same names.
namespace reprise::kernels::cuda {

/// The part of the sum for the calling thread's columns.
template <typename T>
REPRISE_DEVICE float sum_of_squares(const T* x, int64_t width, const Team& team) {
  float squares = 0;
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    load_columns(x + column, count, values);
    for (float value : values) squares = multiply_add(value, value, squares);
  });
  return squares;
}

REPRISE_DEVICE float rms_norm_scale(float squares, int64_t width, float epsilon) {
  return 1.0F / square_root(squares / static_cast<float>(width) + epsilon);
}

template <typename T>
REPRISE_DEVICE float rms_norm_scale(const T* x, int64_t width, float epsilon, const Team& team) {
  return rms_norm_scale(team.sum(sum_of_squares(x, width, team)), width, epsilon);
}

/// out = result(element of x, element of the weight).
template <typename T, typename Result>
REPRISE_DEVICE void weigh_row(
    const T* x, const T* weight, T* out, int64_t width, const Team& team, const Result& result) {
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float values[kColumns];
    float weights[kColumns];
    load_columns(x + column, count, values);
    load_columns(weight + column, count, weights);
    for (int i = 0; i < kColumns; ++i) values[i] = result(values[i], weights[i]);
    store_columns(out + column, count, values);
  });
}

template <typename T>
REPRISE_DEVICE void scale_row(
    const T* x, const T* weight, T* out, int64_t width, float scale, const Team& team) {
  weigh_row(x, weight, out, width, team, [&](float value, float w) { return value * scale * w; });
}

template <typename T>
REPRISE_DEVICE void rms_norm(const RmsNormArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    const float scale = rms_norm_scale(x, width, a.epsilon, team);
    scale_row(x,
              static_cast<const T*>(a.weight),
              static_cast<T*>(a.out) + row * width,
              width,
              scale,
              team);
  });
}

/// sum = residual + x. Each thread reads later only what it wrote itself, if it takes the same
/// columns.
template <typename T>
REPRISE_DEVICE void add_to_row(
    const T* residual, const T* x, T* sum, int64_t width, const Team& team) {
  for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
    float left[kColumns];
    float right[kColumns];
    load_columns(residual + column, count, left);
    load_columns(x + column, count, right);
    for (int i = 0; i < kColumns; ++i) left[i] += right[i];
    store_columns(sum + column, count, left);
  });
}

template <typename T>
REPRISE_DEVICE void fused_add_rms_norm(const FusedAddRmsNormArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_row(row_tile(a.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    const T* residual = static_cast<const T*>(a.residual) + row_offset(a.residual_layout, row);
    T* sum = static_cast<T*>(a.sum) + row * width;
    // No synchronisation is needed after this.
    add_to_row(residual, x, sum, width, team);
    const float scale = rms_norm_scale<T>(sum, width, a.epsilon, team);
    scale_row<T>(sum,
                 static_cast<const T*>(a.weight),
                 static_cast<T*>(a.normed) + row * width,
                 width,
                 scale,
                 team);
  });
}

/// For elementwise ops: all threads of the block work on the tile's rows one after the other.
template <typename Act>
REPRISE_DEVICE void for_each_tile_columns(const RowTiles& tiles, const Act& act) {
  const RowTile tile = row_tile(tiles, block_index());
  const int64_t stretches = ceil_div(tile.column_end - tile.column_begin, kColumns);
  const int64_t total = stretches * (tile.row_end - tile.row_begin);
  for (int64_t i = thread_index(); i < total; i += num_threads()) {
    const int64_t column = tile.column_begin + i % stretches * kColumns;
    act(tile.row_begin + i / stretches, column, tile.column_end - column);
  }
}

/// out = function(a, b), element by element. The result may lie in the memory of an operand,
/// because a thread reads its columns before it writes them.
template <typename T, typename Function>
REPRISE_DEVICE void combine_rows(const RowTiles& tiles,
                                 const T* a,
                                 const RowLayout& a_layout,
                                 const T* b,
                                 const RowLayout& b_layout,
                                 T* out,
                                 const Function& function) {
  for_each_tile_columns(tiles, [&](int64_t row, int64_t column, int64_t count) {
    float left[kColumns];
    float right[kColumns];
    load_columns(a + row_offset(a_layout, row) + column, count, left);
    load_columns(b + row_offset(b_layout, row) + column, count, right);
    for (int i = 0; i < kColumns; ++i) left[i] = function(left[i], right[i]);
    store_columns(out + row * tiles.width + column, count, left);
  });
}

template <typename T>
REPRISE_DEVICE void add(const AddArguments& a) {
  combine_rows(a.tiles,
               static_cast<const T*>(a.a),
               a.a_layout,
               static_cast<const T*>(a.b),
               a.b_layout,
               static_cast<T*>(a.out),
               [](float left, float right) { return left + right; });
}

REPRISE_DEVICE float silu(float x) { return x / (1.0F + exponential(-x)); }

/// out = function(gate, up), where a row of x holds the gate, then up.
template <typename T, typename Arguments, typename Function>
REPRISE_DEVICE void combine_halves(const Arguments& a, const Function& function) {
  const T* gate = static_cast<const T*>(a.x);
  combine_rows(a.tiles,
               gate,
               a.x_layout,
               gate + a.tiles.width,
               a.x_layout,
               static_cast<T*>(a.out),
               function);
}

template <typename T>
REPRISE_DEVICE void silu_and_mul(const SiluAndMulArguments& a) {
  combine_halves<T>(a, [](float gate, float up) { return silu(gate) * up; });
}

/// The sum of the products of two rows, for the calling warp. Its order depends only on the depth.
template <typename T>
REPRISE_DEVICE float dot(const T* x, const T* weight, int64_t depth) {
  float sum = 0;
  for_each_columns({lane_index(), kWarpSize}, 0, depth, [&](int64_t k, int64_t count) {
    float left[kColumns];
    float right[kColumns];
    load_columns(x + k, count, left);
    load_columns(weight + k, count, right);
    for (int i = 0; i < kColumns; ++i) sum = multiply_add(left[i], right[i], sum);
  });
  return warp_sum(sum);
}

REPRISE_DEVICE void copy_bytes(const char* from, char* to, int64_t bytes, int rank, int size) {
  int64_t done = 0;
  if (is_aligned(from) && is_aligned(to)) {
    done = bytes / 16 * 16;
    for (int64_t i = int64_t{rank} * 16; i < done; i += int64_t{size} * 16) {
      store_words(to + i, load_words(from + i));
    }
  }
  for (int64_t i = done + rank; i < bytes; i += size) to[i] = from[i];
}

REPRISE_DEVICE void gather_rows(const GatherRowsArguments& a) {
  const RowTile tile = row_tile(a.tiles, block_index());
  for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
    const int64_t index = a.indices[row];
    char* out = static_cast<char*>(a.out) + row * a.tiles.width;
    if (index >= 0 && index < a.x_rows) {
      copy_bytes(static_cast<const char*>(a.x) + index * a.x_stride + tile.column_begin,
                 out + tile.column_begin,
                 tile.column_end - tile.column_begin,
                 thread_index(),
                 num_threads());
    } else {
      for (int64_t i = tile.column_begin + thread_index(); i < tile.column_end;
           i += num_threads()) {
        out[i] = 0;
      }
    }
  }
}

}  // namespace reprise::kernels::cuda
