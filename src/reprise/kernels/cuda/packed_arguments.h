#pragma once

#include <cstdint>

#include "reprise/kernels/cuda/linear_arguments.h"

namespace reprise::kernels::cuda {

/// The types of activations, as kernels for packed weights see them: these kernels multiply codes,
/// and the type only says how they read biases and write results.
enum class PackedType : int32_t { f32, bf16, f16 };

/// A product with a weight in blocks. `x` of the product is rows of ActivationBlock, and its weight
/// begins with a PanelHeader.
struct alignas(16) PackedLinearArguments {
  CudaLinearArguments of;
  PackedType type;  // of bias and residual, and to which a product is rounded
  PackedType out;   // the same, or f32 for logits
};

/// The same for experts. Row r of the result is the product of row r / rows_per_x of x with the
/// expert experts[r]; an expert below 0 gives zeros. `columns` of the product are those of one
/// expert, a multiple of kPanelColumns.
struct alignas(16) PackedExpertArguments {
  PackedLinearArguments linear;
  const int32_t* experts;
  int64_t rows_per_x;
};

/// Rows [first, first + count) of a weight in blocks as numbers: out[count, depth].
struct alignas(16) ExpandPanelsArguments {
  const void* weight;  // begins with a PanelHeader
  void* out;
  int64_t first;
  int64_t count;
};

/// Rows of ActivationBlock as numbers.
struct alignas(16) DequantizeRowsArguments {
  const void* x;
  void* out;  // [rows, blocks * 32]
  int64_t rows;
  int64_t blocks;
};

// The warps of a block divide the depth. A warp copies one chunk of a panel after the other to
// shared memory, together with the same chunk of the rows.
inline constexpr int kPackedChunkBlocks = 4;
/// The bytes of the largest chunk: four blocks of q8_0.
inline constexpr int kPackedChunkBytes = 2176;
/// Bytes of a row's four ActivationBlocks, and from one row to the next: so the four words that
/// each of eight rows gives to a fragment lie in different banks.
inline constexpr int kPackedRowBytes = 160;
inline constexpr int kPackedRowStride = 176;
/// Sums of a row in shared memory: sixteen columns, and one that keeps rows in different banks.
inline constexpr int kPackedSumStride = 17;

/// Chunks that a warp has in flight. With more rows or two panels a chunk takes more room.
constexpr int packed_slots(int tiles, int parts) { return tiles == 1 && parts == 1 ? 3 : 2; }
constexpr int packed_slot_bytes(int tiles, int parts) {
  return parts * kPackedChunkBytes + tiles * kFragmentRows * kPackedRowStride;
}
/// Dynamic shared memory of kernels with `tiles` fragments of eight rows and `parts` panels.
constexpr uint32_t packed_shared_bytes(int tiles, int parts) {
  return static_cast<uint32_t>(kLinearWarps *
                               (packed_slots(tiles, parts) * packed_slot_bytes(tiles, parts) +
                                parts * tiles * kFragmentRows * kPackedSumStride * 4));
}

/// The least that GPUs of compute capability 8.0 or newer give to a block.
inline constexpr uint32_t kLeastSharedBytes = 99 << 10;
static_assert(packed_shared_bytes(1, 1) <= kLeastSharedBytes &&
              packed_shared_bytes(2, 1) <= kLeastSharedBytes &&
              packed_shared_bytes(1, 2) <= kLeastSharedBytes);

}  // namespace reprise::kernels::cuda
