#include "reprise/base/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace reprise {
namespace {

using Block = std::array<uint32_t, 4>;

// Source: Random123 1.14, tests/kat_vectors, "philox4x32 10".
TEST(Philox, reproduces_the_known_answers_of_random123) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, spreads_64_bit_keys_and_positions_over_all_words) {
  EXPECT_EQ(philox_block(0x299f31d0a4093822, 0x85a308d3243f6a88, 7),
            philox4x32_10({0x243f6a88, 0x85a308d3, 7, 0}, {0xa4093822, 0x299f31d0}));
  EXPECT_NE(philox_block(1, 2, 0), philox_block(2, 1, 0));
  EXPECT_NE(philox_block(1, 2, 0), philox_block(1, 2, 1));
}

TEST(Philox, makes_uniforms_below_one) {
  EXPECT_EQ(uniform_from_bits(0, 0), 0.0);
  EXPECT_EQ(uniform_from_bits(0x80000000, 0), 0.5);
  EXPECT_LT(uniform_from_bits(~0U, ~0U), 1.0);
}

}  // namespace
}  // namespace reprise
