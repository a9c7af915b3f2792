#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/base/element.h"
#include "reprise/tensor/dtype.h"

namespace reprise::weights {

// Scalar conversions of the 16-bit floats, by the functions of base/element.h: they round to
// nearest, ties to even. Infinities stay infinities. A NaN stays a NaN with its sign and as much
// payload as fits.

[[nodiscard]] static constexpr float bf16_to_f32(uint16_t bits) { return to_float(BFloat16{bits}); }
[[nodiscard]] static constexpr float f16_to_f32(uint16_t bits) { return to_float(Float16{bits}); }
[[nodiscard]] static constexpr uint16_t f32_to_bf16(float value) {
  BFloat16 out{};
  store_element(&out, value);
  return out.bits;
}
[[nodiscard]] static constexpr uint16_t f32_to_f16(float value) {
  Float16 out{};
  store_element(&out, value);
  return out.bits;
}

/// Whether convert() supports the pair: equal types, or both among f32, bf16 and f16.
[[nodiscard]] bool is_convertible(DType from, DType to) noexcept;

/// Converts element by element; `src` and `dst` may be unaligned but must not overlap.
/// \pre is_convertible(from, to); both spans hold the same number of elements.
void convert(DType from, std::span<const std::byte> src, DType to, std::span<std::byte> dst);

}  // namespace reprise::weights
