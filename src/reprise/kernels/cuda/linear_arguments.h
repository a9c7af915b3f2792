#pragma once

#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"

namespace reprise::kernels::cuda {

/// product.out = product, or residual + product. A product with silu_and_mul has as many columns as
/// its result, and twice as many rows of weight and elements of bias. One with rope_kv_write has no
/// `out`: the heads of q, then of k, then of v are its columns.
struct alignas(16) CudaLinearArguments {
  LinearArguments product;  // its tile sizes are not looked at
  const void* residual;     // [rows, columns], rows residual_stride apart, or nullptr
  int64_t residual_stride;  // elements
  RopeAndCache to;          // with rope_kv_write; without norms
  const void* norm;         // [depth]: of up to kMostNormedRows rows of x the norm is taken first
  float epsilon;
};

// On the tensor cores. A block's tile has one or two fragments of eight columns and one or four of
// eight rows; its warps share the depth.
inline constexpr int kFragmentColumns = 8;
inline constexpr int kFragmentRows = 8;
inline constexpr int kMostNormedRows = kFragmentRows;
inline constexpr int kMostTileColumns = 2 * kFragmentColumns;
inline constexpr int kMostTileRows = 4 * kFragmentRows;
inline constexpr int kLinearWarps = 8;
/// Weights that a warp has under way: with two blocks on a multiprocessor, 128 KiB of them. To keep
/// 4.3 TB/s busy at 0.7 us of latency takes 23 KiB; what is more bridges the end of the kernel
/// ahead.
inline constexpr int kWarpRingBytes = 8192;
inline constexpr int kBlocksOfProducts = 2;  // on a multiprocessor
/// Up to so many columns, tiles of two fragments would leave multiprocessors of a large GPU without
/// any (132 of them, 16 columns each). A constant: which tiles are used depends on the shape alone.
inline constexpr int kNarrowColumns = 2112;

/// Dynamic shared memory: the rings, then the warps' sums, [warp][part][column][row] floats.
constexpr uint32_t linear_shared_bytes(int columns, int rows, int parts) {
  return static_cast<uint32_t>(kLinearWarps * (kWarpRingBytes + parts * columns * rows * 4));
}

// Of any type and depth: columns and rows of a block's tile.
inline constexpr int kDotColumns = 8;
inline constexpr int kDotRows = 4;

}  // namespace reprise::kernels::cuda
