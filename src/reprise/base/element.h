#pragma once

#include <cstdint>

namespace reprise {

/// Storage of one bfloat16 or float16 element. All arithmetic is in float32.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};
/// OCP E4M3FN: a sign, four exponent bits (bias 7), three mantissa bits. The largest value is 448,
/// and there are no infinities.
struct Float8E4M3 {
  uint8_t bits;
};
/// OCP E5M2: the upper half of a float16. The largest finite value is 57344, and there are
/// infinities.
struct Float8E5M2 {
  uint8_t bits;
};

// Scalar conversions that round to nearest even. They are `static` because this header is compiled
// once per instruction set: of a shared inline function the linker could keep the AVX-512 body, and
// code for the baseline would then call it.

static constexpr float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
static constexpr uint32_t float_to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

static constexpr float to_float(float value) { return value; }
static constexpr float to_float(int8_t value) { return static_cast<float>(value); }
static constexpr float to_float(BFloat16 value) {
  return bits_to_float(static_cast<uint32_t>(value.bits) << 16);
}
static constexpr float to_float(Float16 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  const uint32_t magnitude = value.bits & 0x7fffU;
  const uint32_t normal = (magnitude << 13) + ((127U - 15U) << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000U;  // infinity and NaN
  const uint32_t subnormal =
      float_to_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
  const uint32_t finite = magnitude < 0x0400U ? subnormal : normal;
  return bits_to_float(sign | (magnitude >= 0x7c00U ? special : finite));
}

static constexpr float to_float(Float8E4M3 value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x80U) << 24;
  const uint32_t magnitude = value.bits & 0x7fU;
  const uint32_t normal = (magnitude << 20) + ((127U - 7U) << 23);
  const uint32_t subnormal =
      float_to_bits(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9F);
  const uint32_t finite = magnitude < 0x08U ? subnormal : normal;
  return bits_to_float(sign | (magnitude == 0x7fU ? 0x7fc00000U : finite));
}

static constexpr float to_float(Float8E5M2 value) {
  return to_float(Float16{static_cast<uint16_t>(value.bits << 8)});
}

static constexpr void store_element(float* out, float value) { *out = value; }
static constexpr void store_element(BFloat16* out, float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  // A NaN whose payload lies in the dropped bits would become an infinity: the quiet bit prevents
  // this.
  const uint32_t nan = (bits >> 16) | 0x0040U;
  out->bits = static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
}
static constexpr void store_element(Float16* out, float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t normal =
      (magnitude - ((127U - 15U) << 23) + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding 0.5f rounds to the smallest float16, 2^-24, because one ulp of 0.5f is 2^-24.
  const uint32_t subnormal = float_to_bits(bits_to_float(magnitude) + 0.5F) - float_to_bits(0.5F);
  const uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x03ffU);
  const uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;  // below 2^-14
  const uint32_t bounded = magnitude >= 0x477ff000U ? 0x7c00U : finite;  // 65520 and above
  out->bits = static_cast<uint16_t>(sign | (magnitude > 0x7f800000U ? nan : bounded));
}

// Conversions to eight bits saturate: a value beyond the largest one becomes the largest. A NaN
// becomes 0 in int8, which has no NaN.
static constexpr void store_element(int8_t* out, float value) {
  const float bounded = value < -128.0F ? -128.0F : (value > 127.0F ? 127.0F : value);
  // Adding 1.5 * 2^23 rounds to an integer, because one ulp of this constant is 1.
  const uint32_t rounded = float_to_bits(bounded + 0x1.8p23F);
  *out = static_cast<int8_t>(value == value ? rounded : 0U);
}
static constexpr void store_element(Float8E4M3* out, float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t normal =
      (magnitude - ((127U - 7U) << 23) + 0x7ffffU + ((magnitude >> 20) & 1U)) >> 20;
  // Adding 2^14 rounds to the smallest float8, 2^-9, because one ulp of 2^14 is 2^-9.
  const uint32_t subnormal =
      float_to_bits(bits_to_float(magnitude) + 16384.0F) - float_to_bits(16384.0F);
  const uint32_t finite = magnitude < 0x3c800000U ? subnormal : normal;  // below 2^-6
  const uint32_t bounded = magnitude >= 0x43e00000U ? 0x7eU : finite;    // 448 and above
  out->bits = static_cast<uint8_t>(sign | (magnitude > 0x7f800000U ? 0x7fU : bounded));
}
static constexpr void store_element(Float8E5M2* out, float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = (bits >> 24) & 0x80U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  const uint32_t normal =
      (magnitude - ((127U - 15U) << 23) + 0xfffffU + ((magnitude >> 21) & 1U)) >> 21;
  // Adding 2^7 rounds to the smallest float8, 2^-16, because one ulp of 2^7 is 2^-16.
  const uint32_t subnormal =
      float_to_bits(bits_to_float(magnitude) + 128.0F) - float_to_bits(128.0F);
  const uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;  // below 2^-14
  const uint32_t bounded = magnitude >= 0x47600000U ? 0x7bU : finite;    // 57344 and above
  out->bits = static_cast<uint8_t>(sign | (magnitude > 0x7f800000U ? 0x7fU : bounded));
}

}  // namespace reprise
