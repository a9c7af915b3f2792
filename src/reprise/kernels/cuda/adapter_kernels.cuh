#pragma once

#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/lora_expand/lora_expand_arguments.h"
#include "reprise/kernels/lora_shrink/lora_shrink_arguments.h"

// Low-rank adapters: each row has its own.
namespace reprise::kernels::cuda {

/// A block has a tile of rows and columns; a warp computes one of its elements.
template <typename T>
REPRISE_DEVICE void lora_shrink(const LoraShrinkArguments& a) {
  const int64_t column_tiles = ceil_div(a.columns, a.columns_per_block);
  const int64_t first_row = block_index() / column_tiles * a.rows_per_block;
  const int64_t first_column = block_index() % column_tiles * a.columns_per_block;
  const int64_t rows = min_of(a.rows_per_block, a.rows - first_row);
  const int64_t columns = min_of(a.columns_per_block, a.columns - first_column);
  for (int64_t i = warp_index(); i < rows * columns; i += num_warps()) {
    const int64_t row = first_row + i / columns;
    const int64_t column = first_column + i % columns;
    const int64_t slot = a.slots[row];
    float sum = 0;
    if (slot >= 0) {
      sum = dot(static_cast<const T*>(a.x) + row * a.x_stride,
                static_cast<const T*>(a.a) + (slot * a.columns + column) * a.depth,
                a.depth);
    }
    if (lane_index() == 0) a.out[row * a.columns + column] = sum;
  }
}

template <typename T>
REPRISE_DEVICE void lora_expand(const LoraExpandArguments& a) {
  const int64_t width = a.tiles.width;
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    float totals[kColumns];
    load_columns(static_cast<const T*>(a.y) + row * a.y_stride + column, count, totals);
    const int64_t slot = a.slots[row];
    int64_t module = 0;
    for (int i = 0; slot >= 0 && i < kColumns && i < count; ++i) {
      // The last module has all columns that are left.
      while (module + 1 < a.modules && column + i >= a.ends[module]) ++module;
      const float* shrunk = a.shrunk + (row * a.modules + module) * a.rank;
      const T* b = static_cast<const T*>(a.b) + slot * a.rank * width + column + i;
      for (int64_t j = 0; j < a.rank; ++j) {
        totals[i] = multiply_add(shrunk[j], as_float(b[j * width]), totals[i]);
      }
    }
    store_columns(static_cast<T*>(a.out) + row * width + column, count, totals);
  });
}

}  // namespace reprise::kernels::cuda
