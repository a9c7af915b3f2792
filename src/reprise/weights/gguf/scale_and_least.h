#pragma once

#include "reprise/weights/gguf/block_bytes.h"

namespace reprise::weights::gguf {

/// The scale and the least value of part j of 8, from the twelve bytes of six-bit numbers in Q4_K
/// and Q5_K.
struct ScaleAndLeast {
  uint32_t scale;
  uint32_t least;
};

inline ScaleAndLeast scale_and_least(const std::byte* packed, size_t j) {
  if (j < 4) return {.scale = byte_at(packed, j) & 63U, .least = byte_at(packed, j + 4) & 63U};
  return {.scale = (byte_at(packed, j + 4) & 15U) | (byte_at(packed, j - 4) >> 6) << 4,
          .least = (byte_at(packed, j + 4) >> 4) | (byte_at(packed, j) >> 6) << 4};
}

/// The scale of part j of 16, from the twelve bytes of six-bit scales in Q3_K.
inline int32_t q3_k_scale(const std::byte* packed, size_t j) {
  const uint32_t low = byte_at(packed, j % 8) >> (j / 8 * 4) & 15U;
  const uint32_t high = byte_at(packed, 8 + j % 4) >> (j / 4 * 2) & 3U;
  return static_cast<int32_t>(low | high << 4) - 32;
}

/// The scale of part j of 8 in IQ4_XS.
inline int32_t iq4_xs_scale(const std::byte* block, size_t j) {
  const uint32_t high_bits = byte_at(block, 2) | byte_at(block, 3) << 8;
  const uint32_t low = byte_at(block, 4 + j / 2) >> (j % 2 * 4) & 15U;
  return static_cast<int32_t>(low | (high_bits >> (j * 2) & 3U) << 4) - 32;
}

}  // namespace reprise::weights::gguf
