#include "reprise/weights/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace reprise::weights {
namespace {

// The value by the definition of a binary float with `mantissa_bits` and bias `bias`.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1u);
  const uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1u);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  if (exponent == (1u << exponent_bits) - 1u) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const double scaled = exponent == 0
                            ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                            : std::ldexp(mantissa + (1u << mantissa_bits),
                                         static_cast<int>(exponent) - bias - mantissa_bits);
  return sign * scaled;
}

double f16_value(uint32_t bits) { return value_of(bits, 5, 10); }
double bf16_value(uint32_t bits) { return value_of(bits, 8, 7); }

template <typename Value, typename Widen, typename Narrow>
void expect_all_patterns_exact(Value value, Widen widen, Narrow narrow) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float wide = widen(static_cast<uint16_t>(bits));
    const double expected = value(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_EQ(std::signbit(wide), bits >> 15 != 0) << bits;
      ASSERT_TRUE(std::isnan(value(narrow(wide)))) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(wide), expected) << bits;
      ASSERT_EQ(std::signbit(wide), bits >> 15 != 0) << bits;
      ASSERT_EQ(narrow(wide), bits);
    }
  }
}

TEST(Convert, widens_and_restores_every_f16_pattern) {
  expect_all_patterns_exact(f16_value, f16_to_f32, f32_to_f16);
}

TEST(Convert, widens_and_restores_every_bf16_pattern) {
  expect_all_patterns_exact(bf16_value, bf16_to_f32, f32_to_bf16);
}

// A value halfway between two neighbours is rounded to the even one; one ulp of f32 to either side,
// to the nearer one.
template <typename Value, typename Narrow>
void expect_ties_to_even(uint32_t largest_finite, Value value, Narrow narrow) {
  for (uint32_t bits = 0; bits < largest_finite; ++bits) {
    const double half = (value(bits) + value(bits + 1)) / 2;
    const float tie = static_cast<float>(half);
    if (static_cast<double>(tie) != half) continue;  // below what f32 can tell apart
    const uint16_t even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(narrow(tie), even) << bits;
    ASSERT_EQ(narrow(-tie), even | 0x8000) << bits;
    ASSERT_EQ(narrow(std::nextafter(tie, 0.0f)), bits) << bits;
    ASSERT_EQ(narrow(std::nextafter(tie, std::numeric_limits<float>::infinity())), bits + 1)
        << bits;
  }
}

TEST(Convert, rounds_every_f16_interval_to_nearest_even) {
  expect_ties_to_even(0x7bff, f16_value, f32_to_f16);
}

TEST(Convert, rounds_every_bf16_interval_to_nearest_even) {
  expect_ties_to_even(0x7f7f, bf16_value, f32_to_bf16);
}

TEST(Convert, overflows_to_infinity_only_from_the_rounding_boundary) {
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(f32_to_bf16(-std::numeric_limits<float>::infinity()), 0xff80);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Convert, keeps_a_nan_a_nan_whatever_its_payload) {
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0x7f801000u}) {
    const float nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(nan)))) << bits;
    EXPECT_EQ(f32_to_f16(nan) >> 15, bits >> 31);
    EXPECT_EQ(f32_to_bf16(nan) >> 15, bits >> 31);
  }
}

TEST(Convert, knows_the_float_pairs_and_equal_types) {
  EXPECT_TRUE(is_convertible(DType::bf16, DType::f16));
  EXPECT_TRUE(is_convertible(DType::i64, DType::i64));
  EXPECT_FALSE(is_convertible(DType::i32, DType::f32));
  EXPECT_FALSE(is_convertible(DType::f32, DType::u8));
}

TEST(Convert, converts_unaligned_spans_of_every_length_like_the_scalars) {
  std::mt19937 random(1);
  std::vector<float> values(100);
  for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
  for (const size_t count : {0u, 1u, 3u, 31u, 32u, 33u, 100u}) {
    std::vector<std::byte> src(count * 4 + 1);
    std::vector<std::byte> dst(count * 2 + 1);
    std::memcpy(src.data() + 1, values.data(), count * 4);
    convert(DType::f32, std::span(src).subspan(1), DType::f16, std::span(dst).subspan(1));
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, dst.data() + 1 + i * 2, 2);
      ASSERT_EQ(bits, f32_to_f16(values[i])) << i;
    }
    std::vector<std::byte> other(count * 2);
    convert(DType::f16, std::span(dst).subspan(1), DType::bf16, other);
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, other.data() + i * 2, 2);
      ASSERT_EQ(bits, f32_to_bf16(f16_to_f32(f32_to_f16(values[i])))) << i;
    }
  }
}

}  // namespace
}  // namespace reprise::weights
