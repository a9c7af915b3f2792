#pragma once

#include <cstdint>

namespace reprise::kernels {

/// out[r] = x[row of r] @ weight[experts[r]]^T + bias[experts[r]]. All but x are dense.
struct alignas(16) ExpertLinearArguments {
  const void* x;           // rows x_stride apart
  const void* weight;      // [num_experts, columns, depth]
  const void* bias;        // [num_experts, columns], or nullptr
  const int32_t* experts;  // [rows], read when the kernel runs
  void* out;               // [rows, columns]
  int64_t x_stride;        // elements
  int64_t rows;            // num_tokens * top_k
  int64_t rows_per_x;      // rows of the result for each row of x: top_k or 1
  int64_t columns;
  int64_t depth;
  int64_t columns_per_block;  // at most kMaxLinearTileColumns
};

}  // namespace reprise::kernels
