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

}  // namespace reprise::kernels::cuda
