#include "reprise/cudagraph/verify/byte_set.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace reprise::cudagraph {
namespace {

TEST(ByteSet, joins_ranges_that_touch_and_keeps_others_apart) {
  ByteSet set;
  set.add(10, 20);
  set.add(30, 40);
  EXPECT_EQ(set.first_missing(10, 40), 20U);
  set.add(20, 30);
  EXPECT_EQ(set.first_missing(10, 40), 40U);
  EXPECT_EQ(set.first_missing(9, 40), 9U);
  EXPECT_EQ(set.first_missing(39, 41), 40U);
  EXPECT_EQ(set.first_missing(5, 5), 5U) << "an empty range misses nothing";
  set.clear();
  EXPECT_EQ(set.first_missing(10, 40), 10U);
}

TEST(ByteSet, agrees_with_a_bit_for_each_byte) {
  constexpr size_t kBytes = 200;
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    ByteSet set;
    std::bitset<kBytes> bits;
    for (int i = 0; i < 20; ++i) {
      const uintptr_t begin = random() % kBytes;
      const uintptr_t end = begin + random() % (kBytes - begin) / 4;
      set.add(begin, end);
      for (uintptr_t byte = begin; byte < end; ++byte) bits.set(byte);
      const uintptr_t from = random() % kBytes;
      const uintptr_t to = from + random() % (kBytes - from);
      uintptr_t missing = from;
      while (missing < to && bits.test(missing)) ++missing;
      ASSERT_EQ(set.first_missing(from, to), missing) << round;
    }
  }
}

}  // namespace
}  // namespace reprise::cudagraph
