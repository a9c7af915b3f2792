#include "reprise/server/http/body_memory.h"

#include <gtest/gtest.h>

#include <optional>

namespace reprise::server {
namespace {

constexpr size_t kUncounted = BodyMemory::kUncountedBytes;

TEST(BodyMemory, takes_nothing_for_a_body_of_which_nothing_has_arrived) {
  const BodyMemory memory(1000);
  const BodyMemory::Share share(memory);
  EXPECT_EQ(memory.used_bytes(), 0U);
}

TEST(BodyMemory, counts_what_is_beyond_the_first_bytes_up_to_the_limit) {
  const BodyMemory memory(1000);
  BodyMemory::Share share(memory);
  EXPECT_TRUE(share.grow_to(kUncounted));
  EXPECT_EQ(memory.used_bytes(), 0U);
  EXPECT_TRUE(share.grow_to(kUncounted + 999));
  EXPECT_TRUE(share.grow_to(kUncounted + 1000));
  EXPECT_EQ(memory.used_bytes(), 1000U);
  EXPECT_FALSE(share.grow_to(kUncounted + 1001));
  EXPECT_EQ(memory.used_bytes(), 1000U);
}

TEST(BodyMemory, lets_small_bodies_in_when_large_ones_have_taken_everything) {
  const BodyMemory memory(1000);
  BodyMemory::Share large(memory);
  ASSERT_TRUE(large.grow_to(kUncounted + 1000));
  BodyMemory::Share small(memory);
  EXPECT_TRUE(small.grow_to(kUncounted));
  EXPECT_FALSE(small.grow_to(kUncounted + 1));
}

TEST(BodyMemory, gets_a_share_back_even_when_the_memory_object_is_gone) {
  std::optional<BodyMemory> memory(1000);
  std::optional<BodyMemory::Share> share(std::in_place, *memory);
  ASSERT_TRUE(share->grow_to(kUncounted + 1000));
  {
    BodyMemory::Share other(*memory);
    EXPECT_FALSE(other.grow_to(kUncounted + 1));
    share.reset();
    EXPECT_TRUE(other.grow_to(kUncounted + 1));
    share.emplace(*memory);
    EXPECT_TRUE(share->grow_to(kUncounted + 999));
  }
  EXPECT_EQ(memory->used_bytes(), 999U);
  memory.reset();
  share.reset();
}

}  // namespace
}  // namespace reprise::server
