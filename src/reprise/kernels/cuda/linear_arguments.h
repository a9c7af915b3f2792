#pragma once

#include "reprise/kernels/linear/linear_arguments.h"

namespace reprise::kernels::cuda {

/// product.out = product, or residual + product. A product with silu_and_mul has as many columns as
/// its result, and twice as many rows of weight and elements of bias.
struct alignas(16) CudaLinearArguments {
  LinearArguments product;  // its tile sizes are not looked at
  const void* residual;     // [rows, columns], rows residual_stride apart, or nullptr
  int64_t residual_stride;  // elements
};

// Columns and rows of a block's tile.
inline constexpr int kFragmentColumns = 16;
inline constexpr int kFragmentRows = 8;
inline constexpr int kDotColumns = 8;
inline constexpr int kDotRows = 4;
inline constexpr int kLinearThreads = 256;

}  // namespace reprise::kernels::cuda
