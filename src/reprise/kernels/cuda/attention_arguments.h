#pragma once

#include <cstdint>

#include "reprise/kernels/attention/attention_arguments.h"

namespace reprise::kernels::cuda {

// A block's tile: this many rows, each a query head of a token, by warps of sixteen.
inline constexpr int kAttentionTileRows = 64;
inline constexpr int kAttentionWarpRows = 16;
inline constexpr int kAttentionThreads = 128;
// Below this many positions each, splitting costs more than it hides.
inline constexpr int kLeastSplitPositions = 256;
inline constexpr int kMostSplits = 64;

// The same where requests have many rows; and the tiles of keys or values that a ring holds. With
// three, two blocks fit on a multiprocessor of 164 KB.
inline constexpr int kPrefillTileRows = 128;
inline constexpr int kPrefillWarpRows = 32;
inline constexpr int kPrefillSlots = 3;
/// Positions of such a tile. With 64 of 128 elements, a thread's share of the scores and sums does
/// not fit into its registers (sm_80).
constexpr int prefill_positions(int head_dim) { return head_dim <= 64 ? 64 : 48; }
// What a part leaves and another block reads again is as much as the keys and values of so many
// positions are.
inline constexpr int kLeastPrefillSplit = 1024;

/// Dynamic shared memory: the queries, then the ring.
constexpr uint32_t prefill_shared_bytes(int head_dim) {
  return static_cast<uint32_t>((kPrefillTileRows + kPrefillSlots * prefill_positions(head_dim)) *
                               head_dim * 2);
}
static_assert(2 * (prefill_shared_bytes(128) + 1024) <= 164 * 1024);

/// Paged attention, with its plan made on the device: the grid is max_tiles * kv_heads *
/// num_splits, fixed for a shape, and blocks without work leave at once.
struct alignas(16) CudaAttentionArguments {
  AttentionKernelArguments call;
  float* partials;   // [max_tiles, kv_heads, num_splits, rows of a tile, head_dim + 2]
  int32_t* arrived;  // [max_tiles, kv_heads], zero before and after
  int64_t max_tiles;
  int64_t num_splits;
  int32_t block_bits;  // of the prefill kernel: block_size is 2 to their power
};

}  // namespace reprise::kernels::cuda
