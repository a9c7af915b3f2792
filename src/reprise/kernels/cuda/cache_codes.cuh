#pragma once

#include "reprise/base/element.h"
#include "reprise/kernels/cuda/block.cuh"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/kernels/quantize/quantize_arguments.h"

// The rows of caches of eight bits: codes, and for some types a scale after the codes. See
// CacheRows. The element that a code stands for is code * scale.
namespace reprise::kernels::cuda {

/// What the rows of a cache hold for a kernel.
enum class CacheElements : int { of_model, codes };

/// The bytes of the scale that follows the codes of a row.
inline constexpr int64_t kRowScaleBytes = 4;

/// The number that a code stands for, without its scale.
REPRISE_DEVICE float value_of_code(CacheType type, uint8_t code) {
  switch (type) {
    case CacheType::i8:
      return static_cast<float>(static_cast<int8_t>(code));
    case CacheType::f8e5m2:
      return to_float(Float8E5M2{code});
    default:
      return to_float(Float8E4M3{code});
  }
}

/// The code that the CPU's kernels store for `x`.
REPRISE_DEVICE uint8_t code_of(CacheType type, float x) {
  if (type == CacheType::i8) {
    int8_t code;
    store_element(&code, x);
    return static_cast<uint8_t>(code);
  }
  if (type == CacheType::f8e5m2) {
    Float8E5M2 code;
    store_element(&code, x);
    return code.bits;
  }
  Float8E4M3 code;
  store_element(&code, x);
  return code.bits;
}

REPRISE_DEVICE float largest_code(CacheType type) {
  if (type == CacheType::i8) return 127.0F;
  return type == CacheType::f8e5m2 ? 57344.0F : 448.0F;
}

/// The scale after the codes of a row, which need not be aligned.
REPRISE_DEVICE float scale_after(const char* codes, int64_t head_dim) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes) + head_dim;
  uint32_t bits = 0;
  for (int i = 0; i < kRowScaleBytes; ++i) bits |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return float_of(bits);
}

/// Writes a head to its row of a cache. element(i) is its i-th element, rounded to the type of the
/// model. All lanes of a warp take part. The bits are those of the CPU's kernels.
template <typename Element>
REPRISE_DEVICE void write_codes(
    const CacheRows& rows, int64_t head_dim, float scale, char* row, const Element& element) {
  if (rows.has_row_scales != 0) {
    // The bits of magnitudes have the order of the magnitudes, and a NaN is larger than all.
    uint64_t largest = 0;
    for (int64_t i = lane_index(); i < head_dim; i += kWarpSize) {
      const uint64_t magnitude = bits_of(element(i)) & 0x7fffffffU;
      largest = magnitude > largest ? magnitude : largest;
    }
    for (int mask = 1; mask < kWarpSize; mask *= 2) {
      const uint64_t other = shuffle_xor(largest, mask);
      largest = other > largest ? other : largest;
    }
    const float magnitude = float_of(static_cast<uint32_t>(largest));
    const bool is_tiny = magnitude < kSmallestQuantizedMagnitude;  // false for a NaN
    scale = (is_tiny ? kSmallestQuantizedMagnitude : magnitude) / largest_code(rows.type);
    const uint32_t bits = bits_of(scale);
    if (lane_index() < kRowScaleBytes) {
      row[head_dim + lane_index()] = static_cast<char>(bits >> (8 * lane_index()));
    }
  }
  for (int64_t i = lane_index(); i < head_dim; i += kWarpSize) {
    row[i] = static_cast<char>(code_of(rows.type, element(i) / scale));
  }
}

// ---- codes as operands of the tensor cores

/// a * b + c of two elements of 16 bits in a word, each rounded once.
template <typename T>
REPRISE_DEVICE uint32_t multiply_add_pairs(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDACC__)
  uint32_t result;
  if constexpr (__is_same(T, BFloat16)) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
#else
  const auto half = [](uint32_t word, int i) {
    return as_float(T{static_cast<uint16_t>(word >> (16 * i))});
  };
  return pack<T>(multiply_add(half(a, 0), half(b, 0), half(c, 0)),
                 multiply_add(half(a, 1), half(b, 1), half(c, 1)));
#endif
}

/// Two elements of type T with the value 2^exponent. \pre that is a normal number
template <typename T>
constexpr uint32_t power_pair(int exponent) {
  const bool is_bfloat16 = __is_same(T, BFloat16);
  const int bits = is_bfloat16 ? (127 + exponent) << 7 : (15 + exponent) << 10;
  return static_cast<uint32_t>(bits) * 0x00010001U;
}
constexpr uint32_t kSignPair = 0x80008000U;

/// The exact values of two float8 codes, which are the bytes 1 and 3 of `codes`. A code has a
/// shorter exponent than T, so its bits are those of T for a number that is 2^-kBias times as
/// large. The NaN of e4m3 becomes 480.
template <typename T, int kShift, int kBias>
REPRISE_DEVICE uint32_t float8_pair(uint32_t codes) {
  const uint32_t small = (codes & kSignPair) | ((codes & 0x7f007f00U) >> kShift);
  if constexpr (kBias == 0) return small;
  constexpr uint32_t kMinusZeros = kSignPair;
  return multiply_add_pairs<T>(small, power_pair<T>(kBias), kMinusZeros);
}

/// The same for int8.
template <typename T>
REPRISE_DEVICE uint32_t int8_pair(uint32_t codes) {
  const uint32_t bytes = (codes >> 8) & 0x00ff00ffU;
  constexpr uint32_t kMinusOne = power_pair<T>(0) | kSignPair;
  if constexpr (__is_same(T, BFloat16)) {
    // 128 + the lower seven bits, minus 128 or, for a negative number, 256.
    return multiply_add_pairs<T>(
        (bytes & 0x00800080U) | 0x43004300U, kMinusOne, (bytes & 0x007f007fU) | 0x43004300U);
  } else {
    // 1024 + (code + 128), minus 1152.
    return multiply_add_pairs<T>(0x64806480U, kMinusOne, (bytes ^ 0x00800080U) | 0x64006400U);
  }
}

/// The exact values of the codes in bytes 1 and 3 of `codes`, as two elements of T.
template <typename T>
REPRISE_DEVICE uint32_t widen_pair(uint32_t codes, CacheType type) {
  constexpr bool kIsBFloat16 = __is_same(T, BFloat16);
  if (type == CacheType::i8) return int8_pair<T>(codes);
  if (type == CacheType::f8e5m2) {
    return kIsBFloat16 ? float8_pair<T, 3, 112>(codes) : float8_pair<T, 0, 0>(codes);
  }
  return kIsBFloat16 ? float8_pair<T, 4, 120>(codes) : float8_pair<T, 1, 8>(codes);
}

}  // namespace reprise::kernels::cuda
