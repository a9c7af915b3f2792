#pragma once

#include "reprise/kernels/linear/linear_arguments.h"

namespace reprise::kernels {

/// out = product * scale * weight_scale + bias. `bias` and `out` of the product have the type of
/// the result.
struct alignas(16) ScaledLinearArguments {
  LinearArguments product;
  const float* scale;         // of row r: scale[r * scale_stride]
  const float* weight_scale;  // [columns]
  int64_t scale_stride;       // 1, or 0 for one scale
};

/// The sums of int8 products are int32: 2^17 products of -128 and -128 would overflow.
inline constexpr int64_t kMaxScaledLinearDepth = (int64_t{1} << 17) - 1;

}  // namespace reprise::kernels
