#pragma once

#include <cstdint>

namespace reprise::kernels {

/// out[r] = x[r] @ a[slots[r]]^T, or zeros where the slot is negative. All but x are dense.
struct alignas(16) LoraShrinkArguments {
  const void* x;         // [rows, depth], rows x_stride apart
  const void* a;         // [num_slots, columns, depth]
  const int32_t* slots;  // [>= rows], read when the kernel runs
  float* out;            // [rows, columns]
  int64_t x_stride;      // elements
  int64_t rows;
  int64_t columns;
  int64_t depth;
  int32_t rows_per_block;
  int32_t columns_per_block;  // at most kMaxLoraShrinkColumns
};

inline constexpr int kMaxLoraShrinkColumns = 16;

}  // namespace reprise::kernels
