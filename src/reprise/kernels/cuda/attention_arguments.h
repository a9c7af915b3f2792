#pragma once

#include "reprise/kernels/attention/attention_arguments.h"

namespace reprise::kernels::cuda {

// A block's tile: this many rows, each a query head of a token, by warps of sixteen.
inline constexpr int kAttentionTileRows = 64;
inline constexpr int kAttentionWarpRows = 16;
inline constexpr int kAttentionThreads = 128;
// Below this many positions each, splitting costs more than it hides.
inline constexpr int kLeastSplitPositions = 256;
inline constexpr int kMostSplits = 64;

/// Paged attention, with its plan made on the device: the grid is max_tiles * kv_heads * num_splits,
/// fixed for a shape, and blocks without work leave at once.
struct alignas(16) CudaAttentionArguments {
  AttentionKernelArguments call;
  float* partials;   // [max_tiles, kv_heads, num_splits, kAttentionTileRows, head_dim + 2]
  int32_t* arrived;  // [max_tiles, kv_heads], zero before and after
  int64_t max_tiles;
  int64_t num_splits;
};

}  // namespace reprise::kernels::cuda
