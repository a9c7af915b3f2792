#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/dtype.h"

namespace reprise::weights {

// Scalar conversions of the 16-bit floats. They are exact where the target can hold the value, and
// else round to nearest, ties to even. Infinities stay infinities. A NaN stays a NaN with its sign
// and as much payload as fits. The result does not depend on flush-to-zero; rounding into f16
// subnormals uses a float addition and so expects the default rounding mode. Written as selects:
// the loops over them vectorise.

[[nodiscard]] constexpr float bf16_to_f32(uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

[[nodiscard]] constexpr uint16_t f32_to_bf16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // The quiet bit keeps a NaN whose payload lies in the dropped half from becoming an infinity.
  const uint32_t nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

[[nodiscard]] constexpr float f16_to_f32(uint16_t bits) noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  const uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity and NaN
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7c00u ? special : finite));
}

[[nodiscard]] constexpr uint16_t f32_to_f16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal =
      (magnitude - ((127u - 15u) << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // One ulp of 0.5f is 2^-24, the smallest f16: the float addition does the rounding.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                             std::bit_cast<uint32_t>(0.5f);
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;  // below 2^-14
  const uint32_t bounded = magnitude >= 0x477ff000u ? 0x7c00u : finite;  // 65520 and above
  return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? nan : bounded));
}

/// Whether convert() supports the pair: equal types, or both among f32, bf16 and f16.
[[nodiscard]] bool is_convertible(DType from, DType to) noexcept;

/// Converts element by element; `src` and `dst` may be unaligned but must not overlap.
/// \pre is_convertible(from, to); both spans hold the same number of elements.
void convert(DType from, std::span<const std::byte> src, DType to, std::span<std::byte> dst);

}  // namespace reprise::weights
