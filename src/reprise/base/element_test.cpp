#include "reprise/base/element.h"

#include <gtest/gtest.h>

#include <cmath>

namespace reprise {
namespace {

// For each two neighbouring values of a 16-bit format, checks the float halfway between them and
// the floats next to this one.
template <typename T>
void expect_nearest_even(uint32_t largest_finite) {
  for (uint32_t bits = 0; bits < largest_finite; ++bits) {
    const float low = to_float(T{static_cast<uint16_t>(bits)});
    const float high = to_float(T{static_cast<uint16_t>(bits + 1)});
    ASSERT_LT(low, high);
    const auto middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    T out;
    store_element(&out, low);
    ASSERT_EQ(out.bits, bits) << "round trip";
    store_element(&out, middle);
    ASSERT_EQ(out.bits, bits + bits % 2) << "tie above " << bits;
    store_element(&out, std::nextafter(middle, low));
    ASSERT_EQ(out.bits, bits);
    store_element(&out, std::nextafter(middle, high));
    ASSERT_EQ(out.bits, bits + 1);
    store_element(&out, -std::nextafter(middle, high));
    ASSERT_EQ(out.bits, 0x8000U + bits + 1);
  }
}

TEST(Element, rounds_bfloat16_to_nearest_even) { expect_nearest_even<BFloat16>(0x7f7f); }

TEST(Element, rounds_float16_to_nearest_even) { expect_nearest_even<Float16>(0x7bff); }

template <typename T>
void expect_float8_to_nearest_even(uint32_t largest_finite) {
  for (uint32_t bits = 0; bits < largest_finite; ++bits) {
    const float low = to_float(T{static_cast<uint8_t>(bits)});
    const float high = to_float(T{static_cast<uint8_t>(bits + 1)});
    ASSERT_LT(low, high);
    const float middle = (low + high) / 2;
    const auto stored = [](float value) {
      T out;
      store_element(&out, value);
      return uint32_t{out.bits};
    };
    ASSERT_EQ(stored(low), bits) << "round trip";
    ASSERT_EQ(stored(middle), bits + bits % 2) << "tie above " << bits;
    ASSERT_EQ(stored(std::nextafter(middle, low)), bits);
    ASSERT_EQ(stored(std::nextafter(middle, high)), bits + 1);
    ASSERT_EQ(stored(-std::nextafter(middle, high)), 0x80U + bits + 1);
  }
}

TEST(Element, rounds_float8_to_nearest_even) {
  expect_float8_to_nearest_even<Float8E4M3>(0x7e);
  expect_float8_to_nearest_even<Float8E5M2>(0x7b);
}

int stored_int8(float value) {
  int8_t out;
  store_element(&out, value);
  return out;
}

TEST(Element, rounds_int8_to_nearest_even) {
  for (int i = -128; i < 127; ++i) {
    const float middle = static_cast<float>(i) + 0.5F;
    ASSERT_EQ(stored_int8(static_cast<float>(i)), i);
    ASSERT_EQ(stored_int8(middle), i % 2 == 0 ? i : i + 1);
    ASSERT_EQ(stored_int8(std::nextafter(middle, -1000.0F)), i);
    ASSERT_EQ(stored_int8(std::nextafter(middle, 1000.0F)), i + 1);
  }
  EXPECT_EQ(stored_int8(1e-30F), 0);
}

TEST(Element, saturates_eight_bits) {
  for (float large : {128.0F, 127.6F, 1e20F, INFINITY}) EXPECT_EQ(stored_int8(large), 127);
  for (float large : {-128.5F, -129.0F, -INFINITY}) EXPECT_EQ(stored_int8(large), -128);
  EXPECT_EQ(stored_int8(NAN), 0);
  Float8E4M3 out;
  for (float large : {448.0F, 470.0F, 1e20F, INFINITY}) {
    store_element(&out, large);
    EXPECT_EQ(to_float(out), 448.0F);
    store_element(&out, -large);
    EXPECT_EQ(to_float(out), -448.0F);
  }
  store_element(&out, NAN);
  EXPECT_TRUE(std::isnan(to_float(out)));
  Float8E5M2 wide;
  for (float large : {57344.0F, 61000.0F, 1e20F, INFINITY}) {
    store_element(&wide, large);
    EXPECT_EQ(to_float(wide), 57344.0F);
  }
  store_element(&wide, NAN);
  EXPECT_TRUE(std::isnan(to_float(wide)));
}

template <typename T>
void expect_specials(uint16_t infinity) {
  T out;
  store_element(&out, INFINITY);
  EXPECT_EQ(out.bits, infinity);
  store_element(&out, 3.4e38F);
  EXPECT_EQ(out.bits, infinity) << "beyond the largest finite value";
  // A NaN whose payload lies in the dropped bits must not become an infinity.
  store_element(&out, bits_to_float(0x7f800001U));
  EXPECT_TRUE(std::isnan(to_float(out)));
  EXPECT_TRUE(std::isinf(to_float(T{infinity})));
}

TEST(Element, keeps_infinities_and_nans) {
  expect_specials<BFloat16>(0x7f80);
  expect_specials<Float16>(0x7c00);
}

}  // namespace
}  // namespace reprise
