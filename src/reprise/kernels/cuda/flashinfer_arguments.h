#pragma once

#include <algorithm>
#include <cstdint>

namespace reprise::kernels::cuda {

/// How FlashInfer's decode kernel for one head size and group size divides a block. q, keys and
/// values have elements of two bytes. Source: flashinfer 0.7.2 attention/decode.cuh,
/// BatchDecodeWithPagedKVCacheDispatched. Unlike the source, threads are counted in one dimension
/// here.
struct FlashInferBlock {
  uint32_t head_dim;
  uint32_t group_size;  // query heads per key/value head

  static constexpr uint32_t kStages = 2;  // of shared memory, from compute capability 8 on
  [[nodiscard]] constexpr uint32_t vec_size() const { return std::max(8U, head_dim / 32); }
  [[nodiscard]] constexpr uint32_t bdx() const { return head_dim / vec_size(); }
  [[nodiscard]] constexpr uint32_t bdy() const { return group_size; }
  [[nodiscard]] constexpr uint32_t bdz() const {
    return std::max(128U, bdx() * bdy()) / (bdx() * bdy());
  }
  [[nodiscard]] constexpr uint32_t tile_size() const { return group_size == 1 ? 4 : 1; }
  [[nodiscard]] constexpr uint32_t threads() const { return bdx() * bdy() * bdz(); }
  [[nodiscard]] constexpr uint32_t shared_bytes() const {
    return std::max(2 * kStages * tile_size() * bdy() * bdz() * head_dim * 2,
                    bdz() * bdy() * head_dim * 4) +
           std::max(tile_size() * threads() * 8, 2 * bdy() * bdz() * 4);
  }
};

/// A tile of sixteen rows in four warps by the parts of FlashInfer's kernel for prompts. Source:
/// flashinfer 0.7.2 attention/prefill.cuh, KernelTraits and SharedStorageQKVO.
struct FlashInferTile {
  int head_dim;

  /// Sixteen positions each, of a warp. Two blocks fit on a multiprocessor with 164 KB.
  [[nodiscard]] constexpr uint32_t steps_per_warp() const { return head_dim <= 128 ? 2 : 1; }
  /// The queries, the keys and the values; later the sums of the warps and their weights.
  [[nodiscard]] constexpr uint32_t shared_bytes() const {
    const auto row = static_cast<uint32_t>(head_dim) * 2;
    const uint32_t loaded = 16 * row + 2 * 4 * 16 * steps_per_warp() * row;
    return std::max(loaded, 4 * 16 * (2 * row + 8));
  }
};
static_assert(FlashInferTile{64}.shared_bytes() == 34816 &&
              FlashInferTile{128}.shared_bytes() == 69632 &&
              FlashInferTile{256}.shared_bytes() == 73728);

/// A tile of one query head's tokens by FlashInfer's kernel for prompts on Hopper. Source:
/// flashinfer 0.7.2 attention/hopper, BatchPrefillWithPagedKVCacheDispatched and
/// AttentionKernelTraits.
struct FlashInferPrompts {
  int head_dim;

  static constexpr uint32_t kStages = 2;  // of keys and of values
  static constexpr uint32_t kLoaders = 128;
  static constexpr uint32_t kTilePositions = 96;
  [[nodiscard]] constexpr uint32_t tile_tokens() const { return head_dim == 64 ? 192 : 128; }
  /// Two threads multiply for each token; the others load.
  [[nodiscard]] constexpr uint32_t threads() const { return kLoaders + 2 * tile_tokens(); }
  /// The queries, the keys and the values, and ten barriers.
  [[nodiscard]] constexpr uint32_t shared_bytes() const {
    const auto row = static_cast<uint32_t>(head_dim) * 2;
    return row * (tile_tokens() + 2 * kStages * kTilePositions) + 10 * 8;
  }
};
static_assert(FlashInferPrompts{64}.threads() == 512 && FlashInferPrompts{128}.threads() == 384);

}  // namespace reprise::kernels::cuda
