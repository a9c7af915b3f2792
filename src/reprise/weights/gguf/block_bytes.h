#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "reprise/base/element.h"

/// Access to the parts of a block, which may begin at any byte.
namespace reprise::weights::gguf {

inline uint32_t byte_at(const std::byte* block, size_t index) {
  return std::to_integer<uint32_t>(block[index]);
}

inline int32_t signed_at(const std::byte* block, size_t index) {
  return static_cast<int8_t>(std::to_integer<uint8_t>(block[index]));
}

inline float half_at(const std::byte* block, size_t index) {
  Float16 half;
  std::memcpy(&half, block + index, sizeof half);
  return to_float(half);
}

inline uint32_t word_at(const std::byte* block, size_t index) {
  uint32_t word;
  std::memcpy(&word, block + index, sizeof word);
  return word;
}

}  // namespace reprise::weights::gguf
