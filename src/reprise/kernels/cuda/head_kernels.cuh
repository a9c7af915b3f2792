#pragma once

#include "reprise/kernels/concat/concat_arguments.h"
#include "reprise/kernels/concat_and_cache_mla/concat_and_cache_mla_arguments.h"
#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/pool_rows/pool_rows_arguments.h"

// Kernels for pooling, and for the parts of latent attention around the attention op.
namespace reprise::kernels::cuda {

/// Copies a row of a, then a row of b; all lanes of a warp take part.
template <typename T>
REPRISE_DEVICE void copy_side_by_side(
    const T* a, int64_t a_width, const T* b, int64_t b_width, T* out) {
  const auto copy = [](const T* from, T* to, int64_t count) {
    copy_bytes(reinterpret_cast<const char*>(from),
               reinterpret_cast<char*>(to),
               count * static_cast<int64_t>(sizeof(T)),
               lane_index(),
               kWarpSize);
  };
  copy(a, out, a_width);
  copy(b, out + a_width, b_width);
}

template <typename T>
REPRISE_DEVICE void concat(const ConcatArguments& a) {
  const RowTile tile = row_tile(a.tiles, block_index());
  for (int64_t row = tile.row_begin + warp_index(); row < tile.row_end; row += num_warps()) {
    copy_side_by_side(static_cast<const T*>(a.a) + row_offset(a.a_layout, row),
                      a.a_width,
                      static_cast<const T*>(a.b) + row_offset(a.b_layout, row),
                      a.tiles.width - a.a_width,
                      static_cast<T*>(a.out) + row * a.tiles.width);
  }
}

template <typename T>
REPRISE_DEVICE void concat_and_cache_mla(const ConcatAndCacheMlaArguments& a) {
  const int64_t first = block_index() * a.tokens_per_block;
  const int64_t last = min_of(first + a.tokens_per_block, a.num_tokens);
  for (int64_t token = first + warp_index(); token < last; token += num_warps()) {
    const int64_t slot = a.slot_mapping[token];
    // A write to a slot beyond the cache would change other memory.
    if (slot < 0 || slot >= a.num_slots) continue;
    copy_side_by_side(static_cast<const T*>(a.kv_c) + token * a.kv_c_stride,
                      a.latent_size,
                      static_cast<const T*>(a.k_pe) + token * a.k_pe_stride,
                      a.rope_size,
                      static_cast<T*>(a.kv_cache) + slot * (a.latent_size + a.rope_size));
  }
}

/// A block has a tile of rows and columns of one head; a warp computes one of its elements.
template <typename T>
REPRISE_DEVICE void head_linear(const HeadLinearArguments& a) {
  const LinearArguments& product = a.first_head;
  const int64_t column_tiles = ceil_div(product.columns, product.columns_per_block);
  const int64_t head = block_index() / a.blocks_per_head;
  const int64_t tile = block_index() % a.blocks_per_head;
  const int64_t first_row = tile / column_tiles * product.rows_per_block;
  const int64_t first_column = tile % column_tiles * product.columns_per_block;
  const int64_t rows = min_of(product.rows_per_block, product.rows - first_row);
  const int64_t columns = min_of(product.columns_per_block, product.columns - first_column);
  for (int64_t i = warp_index(); i < rows * columns; i += num_warps()) {
    const int64_t row = first_row + i / columns;
    const int64_t column = head * product.columns + first_column + i % columns;
    const float sum =
        dot(static_cast<const T*>(product.x) + row * product.x_stride + head * a.x_head_stride,
            static_cast<const T*>(product.weight) + column * product.depth,
            product.depth);
    if (lane_index() == 0) {
      put(static_cast<T*>(product.out) + row * a.heads * product.columns + column, sum);
    }
  }
}

/// The mean of the rows of a request: all of its rows, or only the first or the last one. Rows of
/// padding become zeros.
template <typename T>
REPRISE_DEVICE void pool_rows(const PoolRowsArguments& a) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    const int64_t first = row == 0 ? 0 : a.ends[row - 1] + 1;
    const int64_t last = row < *a.num_rows ? a.ends[row] : -1;
    const bool is_inside = first >= 0 && first <= last && last < a.x_rows;
    const int64_t begin = a.function == OpFunction::last ? last : first;
    const int64_t end = is_inside ? (a.function == OpFunction::cls ? first : last) + 1 : begin;
    float totals[kColumns] = {};
    for (int64_t from = begin; from < end; ++from) {
      float values[kColumns];
      load_columns(static_cast<const T*>(a.x) + from * a.x_stride + column, count, values);
      for (int i = 0; i < kColumns; ++i) totals[i] += values[i];
    }
    const float divisor = begin < end ? static_cast<float>(end - begin) : 1.0F;
    for (float& total : totals) total /= divisor;
    store_columns(a.out + row * a.tiles.width + column, count, totals);
  });
}

}  // namespace reprise::kernels::cuda
