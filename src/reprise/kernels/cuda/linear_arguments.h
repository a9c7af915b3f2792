#pragma once

#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write_arguments.h"

namespace reprise::kernels::cuda {

/// product.out = product, or product.residual + product. A product with silu_and_mul has the
/// columns of its result, and its weight and bias have twice as many rows. A product with
/// rope_kv_write has no `out`: its columns are the heads of q, then of k, then of v.
struct alignas(16) CudaLinearArguments {
  LinearArguments product;  // the tile sizes are ignored
  RopeAndCache to;          // with rope_kv_write; without norms
  const void* norm;         // [depth] or nullptr: x is normed first, in up to kMostNormedRows rows
  float epsilon;
};

// Tiles on tensor cores. A block's tile has one, two or four fragments of eight columns and one or
// four fragments of eight rows. The warps of a block divide the depth.
inline constexpr int kFragmentColumns = 8;
inline constexpr int kFragmentRows = 8;
inline constexpr int kMostNormedRows = kFragmentRows;
inline constexpr int kMostTileColumns = 2 * kFragmentColumns;
inline constexpr int kWideTileColumns = 4 * kFragmentColumns;
inline constexpr int kMostTileRows = 4 * kFragmentRows;
inline constexpr int kLinearWarps = 8;
/// Bytes of weights that a warp loads ahead: 128 KiB for the two blocks of a multiprocessor. 23 KiB
/// would keep 4.3 TB/s busy at a latency of 0.7 us. The rest covers the end of the previous kernel.
inline constexpr int kWarpRingBytes = 8192;
inline constexpr int kBlocksOfProducts = 2;  // on a multiprocessor
/// For up to eight rows: with at most so many columns, tiles of two fragments would leave
/// multiprocessors of a large GPU idle (132 of them, 16 columns each). It is a constant, so that
/// the tiles depend only on the shape.
inline constexpr int kNarrowColumns = 2112;

/// Dynamic shared memory: the ring buffers, then the sums of the warps, [warp][part][column][row]
/// floats.
constexpr uint32_t linear_shared_bytes(int columns, int rows, int parts) {
  return static_cast<uint32_t>(kLinearWarps * (kWarpRingBytes + parts * columns * rows * 4));
}

// Products whose weights arrive by bulk copies (streamed_linear_kernels.cuh). One block runs on a
// multiprocessor, so that a block of the next kernel has room beside it.
inline constexpr int kStreamedThreads = (kLinearWarps + 1) * 32;  // the last warp starts the copies
/// Dynamic shared memory: two such blocks take all 228 KiB of a multiprocessor, of which the driver
/// keeps 1 KiB for each block.
inline constexpr uint32_t kStreamedSharedBytes = 113 * 1024;

// Kernels for any type and depth: columns and rows of a block's tile.
inline constexpr int kDotColumns = 8;
inline constexpr int kDotRows = 4;

}  // namespace reprise::kernels::cuda
