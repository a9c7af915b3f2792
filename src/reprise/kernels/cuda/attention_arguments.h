#pragma once

#include <array>
#include <cstdint>

#include "reprise/kernels/attention/attention_arguments.h"
#include "reprise/kernels/sparse_attention/sparse_attention_arguments.h"

namespace reprise::kernels::cuda {

// The rows of a block's tile. A row is one query head of one token; a warp has sixteen rows.
inline constexpr int kAttentionTileRows = 64;
inline constexpr int kAttentionWarpRows = 16;
inline constexpr int kAttentionThreads = 128;
// With fewer positions per part, more parts cost more than they save.
inline constexpr int kLeastPartPositions = 256;
inline constexpr int kMostParts = 64;
/// Steps of sixteen positions in a fixed part: 512 positions. A multiple of the warps of a block.
inline constexpr int kFixedPartSteps = 32;
/// The sizes of heads for which there are kernels on the tensor cores.
inline constexpr std::array<int, 6> kFragmentHeads = {32, 64, 80, 96, 128, 256};
/// The floats of a row of partial results, for heads of up to 128 elements. Wider heads have fewer
/// rows in the same memory.
inline constexpr int64_t kPartialRowFloats = 128 + 2;
/// Dynamic shared memory of a block of the kernels for decoding: the results of its warps, or the
/// weights of all parts of a tile.
constexpr uint32_t attention_shared_bytes(int head_dim) {
  const int row = head_dim + 2 > kMostParts + 1 ? head_dim + 2 : kMostParts + 1;
  return static_cast<uint32_t>(kAttentionTileRows * row * 4);
}
static_assert(attention_shared_bytes(64) == 16896 && attention_shared_bytes(128) == 33280);
/// Threads of a block that merges the parts of an attention plan: one for each element of a row.
inline constexpr int kMergeThreads = kMaxAttentionHeadDim;

// The same for requests with many rows, and the number of tiles of keys or values in the ring
// buffer. With three tiles, two blocks fit on a multiprocessor with 164 KB.
inline constexpr int kPrefillTileRows = 128;
inline constexpr int kPrefillWarpRows = 32;
inline constexpr int kPrefillSlots = 3;
/// Positions of a tile for many rows. With 64 positions of 128 elements, a thread's scores and sums
/// would not fit into its registers (sm_80).
constexpr int prefill_positions(int head_dim) { return head_dim <= 64 ? 64 : 48; }
// The partial result of a part, which another block reads, is as large as the keys and values of
// this many positions.
inline constexpr int kLeastPrefillPart = 1024;

/// Dynamic shared memory: the queries, then the ring buffer.
constexpr uint32_t prefill_shared_bytes(int head_dim) {
  return static_cast<uint32_t>((kPrefillTileRows + kPrefillSlots * prefill_positions(head_dim)) *
                               head_dim * 2);
}
static_assert(2 * (prefill_shared_bytes(128) + 1024) <= 164 * 1024);

// Latent attention on the tensor cores (latent_attention_kernels.cuh). All query heads share one
// row for each position, so a tile has rows of several heads and tokens.
inline constexpr int kLatentThreads = 256;
/// Positions of a tile: a lane of a warp's four lanes for a row has the scores of eight of them.
inline constexpr int kLatentPositions = 32;
/// The parts of the depth of a score, each computed by another warp.
inline constexpr int kLatentDepthParts = 4;
/// The rows of tiles: where requests have few rows or tiles are few, and where the GPU has enough
/// shared memory and work for it.
inline constexpr int kNarrowLatentRows = 16;
inline constexpr int kWideLatentRows = 64;
/// The most rows of partial results of a request.
inline constexpr int kMostLatentPartRows = 8192;
/// Parts that a block adds at a time.
inline constexpr int kLatentMergedParts = 8;
static_assert(kLatentMergedParts * kLatentMergedParts >= kMostParts);
/// Elements of a value (the latent) and of a key (the latent and the rotated key) for which there
/// are kernels: DeepSeek-V2 and V3, Kimi, GLM; Mistral 4.
struct LatentSizes {
  int value_dim;
  int key_dim;
};
inline constexpr std::array<LatentSizes, 2> kLatentSizes = {{{512, 576}, {256, 320}}};
/// The floats of a row of partial results: multiples of sixteen bytes.
constexpr int latent_part_floats(int value_dim) { return value_dim + 4; }
/// Dynamic shared memory of a block: queries, two tiles of positions, scores, a factor of each row.
constexpr uint32_t latent_shared_bytes(int key_dim, int rows) {
  return static_cast<uint32_t>((rows + 2 * kLatentPositions) * key_dim * 2 +
                               (kLatentDepthParts * kLatentPositions + 1) * rows * 4);
}
// GPUs of compute capability 8.6 to 8.9 and 12 have 99 KiB for a block, the H200 has 227 KiB.
static_assert(latent_shared_bytes(576, kNarrowLatentRows) <= 99 * 1024 &&
              latent_shared_bytes(576, kWideLatentRows) <= 227 * 1024);

/// Shared memory of attention over chosen positions: the candidates that were best so far, and as
/// many new ones, of eight bytes each.
inline constexpr uint32_t kSparseSharedBytes = 2 * kMaxSparsePositions * 8;

inline constexpr int64_t kPrefillBlocksPerMultiprocessor = 2;
/// The largest number of rows of partial results in a launch for prompts. With more tiles than
/// blocks that run at a time there is only one part, which leaves no partial results.
constexpr int64_t most_prefill_partial_rows(int num_multiprocessors) {
  return (2 * kPrefillBlocksPerMultiprocessor * num_multiprocessors + kMostParts) *
         kPrefillTileRows;
}

/// The requests of a batch that a launch of attention serves.
enum class ServedRequests : int32_t {
  all,
  of_few_rows,   // up to kAttentionWarpRows: decoding requests
  of_many_rows,  // the others. This launch also fills the rows of the padding.
};

/// How the kernels for decoding divide the work of a request. (One field for both properties,
/// because with two of them ptxas spills registers.)
enum class AttentionDivision : int32_t {
  by_context,           // parts of equal length, in tiles of kAttentionTileRows
  fixed_parts,          // parts begin at multiples of kFixedPartSteps; tiles of kAttentionWarpRows
  by_context_in_small,  // parts of equal length, in tiles of kAttentionWarpRows
};

/// Paged attention that divides its work on the device. The grid is fixed for a shape, and blocks
/// without work end at once. The kernels for decoding take any grid (see attention_share.cuh). The
/// grid of the kernels for prompts is max_tiles * kv_heads * max_parts.
struct alignas(16) CudaAttentionArguments {
  AttentionKernelArguments call;
  // Decoding: [rows of all parts of all tiles and kv heads, head_dim + 2]. Prompts: [max_tiles,
  // kv_heads, max_parts, rows of a tile, head_dim + 2].
  float* partials;
  // How many parts of a tile are done; zero before and after. Decoding: at the index of the tile's
  // first row of partial results. Prompts: [max_tiles, kv_heads].
  int32_t* arrived;
  int64_t most_partial_rows;  // decoding: the rows that fit into `partials`
  int64_t max_tiles;          // prompts
  int64_t max_parts;          // prompts
  ServedRequests served;
  int32_t block_bits;          // prompts: block_size is 2 to this power
  AttentionDivision division;  // decoding
  int32_t
      is_uniform;  // decoding: 1 = all requests have query_len tokens; read by FlashInfer's kernels
};

}  // namespace reprise::kernels::cuda
