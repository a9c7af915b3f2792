#pragma once

#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"

namespace reprise::kernels {

/// The columns of the product are the heads of q, then of k, then of v. The product has no `out` of
/// its own, and columns_per_block is one head.
struct alignas(16) LinearRopeKvWriteArguments {
  LinearArguments product;
  RopeAndCache to;
};

/// A block keeps one head of kMaxLinearTileRows tokens on the stack: 64 KiB at most.
inline constexpr int kMaxLinearRopeHeadDim = 256;

}  // namespace reprise::kernels
