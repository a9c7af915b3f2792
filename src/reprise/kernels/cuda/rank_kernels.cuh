#pragma once

#include "reprise/kernels/cuda/rank_arguments.h"
#include "reprise/kernels/cuda/row_kernels.cuh"

// Kernels that follow an exchange: they add the parts that it has gathered from the ranks, norm the
// sum, or put parts side by side. And local_experts, which needs no exchange.
namespace reprise::kernels::cuda {

/// The sum over the ranks of elements of one thread, in the order of the ranks, in float32.
template <typename T>
REPRISE_DEVICE void add_ranks(
    const T* parts, int64_t stride, int64_t num_ranks, int64_t count, float (&sums)[kColumns]) {
  load_columns(parts, count, sums);
  for (int64_t rank = 1; rank < num_ranks; ++rank) {
    float values[kColumns];
    load_columns(parts + rank * stride, count, values);
    for (int i = 0; i < kColumns; ++i) sums[i] += values[i];
  }
}

/// out = the sum of x over the ranks, rounded once.
template <typename T>
REPRISE_DEVICE void sum_of_ranks(const RankSumArguments& a) {
  const int64_t begin = int64_t{block_index()} * kRankElements + int64_t{thread_index()} * kColumns;
  if (begin >= a.count) return;
  float sums[kColumns];
  add_ranks(static_cast<const T*>(a.parts) + begin, a.count, a.num_ranks, a.count - begin, sums);
  store_columns(static_cast<T*>(a.out) + begin, a.count - begin, sums);
}

/// The same, then fused_add_rms_norm, with the bits of the three ops.
template <typename T>
REPRISE_DEVICE void sum_of_ranks_and_norm(const RankSumNormArguments& a) {
  const FusedAddRmsNormArguments& norm = a.norm;
  const int64_t width = norm.tiles.width;
  for_each_row(row_tile(norm.tiles, block_index()), width, [&](int64_t row, const Team& team) {
    const T* parts = static_cast<const T*>(a.parts) + row * width;
    T* sum = static_cast<T*>(norm.sum) + row * width;
    // Each thread reads later only the columns that it wrote itself.
    for_each_columns(team, 0, width, [&](int64_t column, int64_t count) {
      float sums[kColumns];
      add_ranks(parts + column, norm.tiles.rows * width, a.num_ranks, count, sums);
      if (norm.residual != nullptr) {
        const T* residual =
            static_cast<const T*>(norm.residual) + row_offset(norm.residual_layout, row);
        float values[kColumns];
        load_columns(residual + column, count, values);
        for (int i = 0; i < kColumns; ++i) sums[i] = values[i] + rounded<T>(sums[i]);
      }
      store_columns(sum + column, count, sums);
    });
    const float scale = rms_norm_scale<T>(sum, width, norm.epsilon, team);
    scale_row<T>(sum,
                 static_cast<const T*>(norm.weight),
                 static_cast<T*>(norm.normed) + row * width,
                 width,
                 scale,
                 team);
  });
}

/// Numbers a rank's experts from 0; other experts get the number -1 and the weight 0.
REPRISE_DEVICE void experts_of_rank(const RankExpertsArguments& a) {
  const int64_t begin = int64_t{block_index()} * kRankElements;
  const int64_t end = min_of(begin + kRankElements, a.count);
  for (int64_t i = begin + thread_index(); i < end; i += num_threads()) {
    const int64_t expert = a.experts[i];
    const bool is_mine = expert >= a.begin && expert < a.end;
    a.local_weights[i] = is_mine ? a.weights[i] : 0.0F;
    a.local_ids[i] = is_mine ? static_cast<int32_t>(expert - a.begin) : -1;
  }
}

/// Puts the columns of the ranks side by side. The result ends before the padding of the last rank.
REPRISE_DEVICE void columns_of_ranks(const RankColumnsArguments& a) {
  const RowTile tile = row_tile(a.tiles, block_index());
  const int64_t row_end = min_of(tile.row_end, *a.num_rows);
  for (int64_t row = tile.row_begin; row < row_end; ++row) {
    char* out = static_cast<char*>(a.out) + row * a.tiles.width;
    for (int64_t column = tile.column_begin; column < tile.column_end;) {
      const int64_t rank = column / a.row_bytes;
      const int64_t end = min_of((rank + 1) * a.row_bytes, tile.column_end);
      const char* part =
          static_cast<const char*>(a.parts) + (rank * a.tiles.rows + row) * a.row_bytes;
      const int64_t column_of_rank = column - rank * a.row_bytes;
      copy_bytes(part + column_of_rank, out + column, end - column, thread_index(), num_threads());
      column = end;
    }
  }
}

}  // namespace reprise::kernels::cuda
