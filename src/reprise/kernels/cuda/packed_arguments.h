#pragma once

#include <cstdint>

#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/select_experts/select_experts_arguments.h"
#include "reprise/tensor/codecs.h"

namespace reprise::kernels::cuda {

/// The types of activations, as kernels for packed weights see them: these kernels multiply codes,
/// and the type only says how they read biases and write results.
enum class PackedType : int32_t { f32, bf16, f16 };

/// A product with a weight in panels of codes. A weight in blocks begins with a PanelHeader, and
/// `x` is rows of ActivationBlock; for other weights `x` is rows of elements or of int8.
struct alignas(16) PackedLinearArguments {
  CudaLinearArguments of;
  PackedType type;  // of bias and residual, and to which a product is rounded
  PackedType out;   // the same, or f32 for logits
  int64_t panels;   // of the weight; a weight in blocks says itself how many it has
};

/// Rows of the result with the same expert: order[first] to order[first + count - 1].
struct alignas(16) ExpertTile {
  int32_t expert;
  int32_t first;
  int32_t count;
  int32_t unused;
};

/// The same for experts. Row r of the result is the product of row r / rows_per_x of x with the
/// expert experts[r]; an expert below 0 gives zeros. `rows` and `columns` of the product are those
/// of the result. Only a weight in rows may have other numbers of columns than multiples of
/// kPanelColumns.
struct alignas(16) PackedExpertArguments {
  PackedLinearArguments linear;
  const int32_t* experts;
  int64_t rows_per_x;
  // The tiles of the rows (GroupRowsArguments), or nullptr: each row is a tile.
  const int32_t* order;
  const ExpertTile* tiles;
  const int32_t* num_tiles;
  /// Streamed kernels may read `experts` before they wait: the kernel ahead of them does not write
  /// it, and began when all kernels before it had ended. Only without tiles.
  bool knows_experts_early = false;
};

/// Makes tiles of up to tile_rows rows whose experts are the same.
struct alignas(16) GroupRowsArguments {
  const int32_t* experts;  // [rows], each below num_experts
  int32_t* order;          // [rows]
  ExpertTile* tiles;       // room for most_expert_tiles()
  int32_t* num_tiles;
  int32_t rows;
  int32_t num_experts;
  int32_t tile_rows;
};

/// The most tiles that rows can make. Rows without an expert make tiles, too.
constexpr int64_t most_expert_tiles(int64_t rows, int64_t num_experts, int64_t tile_rows) {
  const int64_t most = num_experts + 1 + rows / tile_rows;
  return rows < most ? rows : most;
}
/// Experts, and one more for rows without an expert.
inline constexpr int kMostExpertSlots = kMaxExperts + 1;
/// Two words and a counter for each slot.
inline constexpr uint32_t kGroupSharedBytes = kMostExpertSlots * (2 * 8 + 4);

/// Rows [first, first + count) of a weight in blocks as numbers: out[count, depth].
struct alignas(16) ExpandPanelsArguments {
  const void* weight;  // begins with a PanelHeader
  void* out;
  int64_t first;
  int64_t count;
};

/// Panels of a weight of smaller floats as numbers, from panel `first_panel` on, one for each
/// block: out[16 * blocks, depth].
struct alignas(16) ExpandFloatsArguments {
  const void* weight;
  void* out;
  int64_t first_panel;
  int64_t depth;
  int64_t group;        // elements that share a scale
  int64_t panel_bytes;  // of all sixteen columns
  PanelFormat codec;
};

/// Rows of ActivationBlock as numbers.
struct alignas(16) DequantizeRowsArguments {
  const void* x;
  void* out;  // [rows, blocks * 32]
  int64_t rows;
  int64_t blocks;
};

/// The sizes of one copy of a warp of a product to shared memory. The warps of a block divide the
/// depth: a warp copies one chunk of a panel after the other, together with the same chunk of the
/// rows.
struct ChunkSizes {
  int elements;      // of the depth
  int weight_bytes;  // of the largest chunk of a panel
  int row_bytes;     // of a chunk of a row of x
  int row_stride;    // from one row to the next in shared memory, so that no banks collide
};
/// Four blocks, of q8_0 at most, and four ActivationBlocks. The four words that each of eight rows
/// gives to a fragment lie in different banks.
inline constexpr ChunkSizes kBlockChunk = {
    .elements = 128, .weight_bytes = 2176, .row_bytes = 160, .row_stride = 176};
/// Two groups of float8 with the scales of a larger group, or a group of four-bit floats. Fragments
/// of rows are loaded as matrices (rows 16 bytes apart from a multiple of 128), or, for codes of
/// four bits, sixteen bytes by each lane (64 bytes apart).
inline constexpr ChunkSizes kFloat8Chunk = {
    .elements = 64, .weight_bytes = 1088, .row_bytes = 128, .row_stride = 144};
inline constexpr ChunkSizes kFloat4Chunk = {
    .elements = 64, .weight_bytes = 576, .row_bytes = 128, .row_stride = 192};
/// Sixteen rows of elements of 16 bits.
inline constexpr ChunkSizes kRowChunk = {
    .elements = 64, .weight_bytes = 2304, .row_bytes = 128, .row_stride = 144};
/// Codes of eight bits.
inline constexpr ChunkSizes kInt8Chunk = {
    .elements = 128, .weight_bytes = 2048, .row_bytes = 128, .row_stride = 144};

/// With more rows, a launch that quantises them once costs less than each block doing so.
inline constexpr int kMostOwnRows = kFragmentRows / 2;
/// The most shared memory for rows that a streamed kernel quantises itself, so that its ring has
/// two slots at least, of q8_0, and seven of int4_g128 for one panel or four for two.
constexpr int most_own_row_bytes(int parts) { return (parts == 2 ? 32 : 48) << 10; }
/// Bytes from one such row to the next. A chunk has the row_stride of ChunkSizes modulo 128, so
/// that no banks collide.
constexpr int own_row_stride(const ChunkSizes& chunk, int64_t depth) {
  const int64_t bytes = depth / 32 * (chunk.row_bytes * 32 / chunk.elements);
  return static_cast<int>((bytes + 127) / 128 * 128) + chunk.row_stride % 128;
}

/// Sums of a row in shared memory: sixteen columns, and one that keeps rows in different banks.
inline constexpr int kPackedSumStride = 17;
/// The least that GPUs of compute capability 8.0 or newer give to a block.
inline constexpr int kLeastSharedBytes = 99 << 10;

constexpr int packed_slot_bytes(const ChunkSizes& chunk, int tiles, int parts) {
  return parts * chunk.weight_bytes + tiles * kFragmentRows * chunk.row_stride;
}
constexpr int packed_sum_bytes(int tiles, int parts) {
  return parts * tiles * kFragmentRows * kPackedSumStride * 4;
}
/// Chunks that a warp has in flight: as many as fit, but more than five would not help.
constexpr int packed_slots(const ChunkSizes& chunk, int tiles, int parts) {
  const int room = kLeastSharedBytes / kLinearWarps - packed_sum_bytes(tiles, parts);
  const int slots = room / packed_slot_bytes(chunk, tiles, parts);
  return slots < 5 ? slots : 5;
}
/// Dynamic shared memory of kernels with `tiles` fragments of eight rows and `parts` panels.
constexpr uint32_t packed_shared_bytes(const ChunkSizes& chunk, int tiles, int parts) {
  return static_cast<uint32_t>(
      kLinearWarps * (packed_slots(chunk, tiles, parts) * packed_slot_bytes(chunk, tiles, parts) +
                      packed_sum_bytes(tiles, parts)));
}

// Products of experts with many rows: the panels and the rows of a block's tile.
inline constexpr int kWidePanels = kLinearWarps;
inline constexpr int kWideTiles = 8;  // fragments of rows
inline constexpr int kWideRows = kWideTiles * kFragmentRows;

constexpr int wide_stage_bytes(const ChunkSizes& chunk) {
  return kWidePanels * chunk.weight_bytes + kWideRows * chunk.row_stride;
}
/// Chunks in shared memory, at most four.
constexpr int wide_stages(const ChunkSizes& chunk) {
  const int stages = kLeastSharedBytes / wide_stage_bytes(chunk);
  return stages < 4 ? stages : 4;
}
constexpr uint32_t wide_shared_bytes(const ChunkSizes& chunk) {
  return static_cast<uint32_t>(wide_stages(chunk) * wide_stage_bytes(chunk));
}
// Later the sums of a tile lie there.
static_assert(int64_t{wide_shared_bytes(kFloat4Chunk)} >=
              int64_t{kWideRows} * kWidePanels * kPackedSumStride * 4);

}  // namespace reprise::kernels::cuda
