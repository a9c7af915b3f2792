#pragma once

#include <cstdint>

namespace reprise::kernels::cuda {

/// The tokens of a chunk of a prompt. Chunks begin at multiples of this number, counted from the
/// first token of a request, so they do not depend on how a prompt is divided into steps. A chunk
/// is four tiles of the tensor cores. Longer chunks would need more operations within a chunk, and
/// shorter ones more passes over the state.
inline constexpr int kStateChunkTokens = 64;

/// Values of a head that a block computes: sixteen for each warp.
inline constexpr int kDeltaChunkValues = 128;
inline constexpr int kSelectiveChunkValues = 64;

/// Floats in a row of a triangle in shared memory. Four neighbouring rows begin eight banks apart.
inline constexpr int kTriangleStride = 72;
/// Arrays of a float for each token; see ChunkFactors.
inline constexpr int kChunkFactors = 9;

/// For the operands' addresses; see ChunkHead.
inline constexpr int kChunkHeadBytes = 192;

/// Keys, queries and values of a chunk, then `triangles` triangles, the factors and a ChunkHead. 99
/// KiB are the most that every GPU of compute capability 8 has.
[[nodiscard]] constexpr uint32_t chunk_shared_bytes(int key_dim, int values, int triangles) {
  return static_cast<uint32_t>(
      kStateChunkTokens *
          ((2 * key_dim + values) * 2 + (triangles * kTriangleStride + kChunkFactors) * 4) +
      kChunkHeadBytes);
}
static_assert(chunk_shared_bytes(128, kDeltaChunkValues, 2) <= 99 * 1024);
static_assert(chunk_shared_bytes(256, kSelectiveChunkValues, 1) <= 99 * 1024);

}  // namespace reprise::kernels::cuda
