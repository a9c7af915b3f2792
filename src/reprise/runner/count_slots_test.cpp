#include "reprise/runner/count_slots.h"

#include <gtest/gtest.h>

namespace reprise::runner {
namespace {

using scheduler::RequestId;

TEST(CountSlots, a_slot_serves_its_request_while_it_has_counted_all_tokens) {
  CountSlots slots(2);
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{7}, 0), std::nullopt) << "no slot has the request";
  const auto slot = slots.take(RequestId{7}, 3);
  ASSERT_TRUE(slot);
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{7}, 4), slot) << "the step before chose one token";
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{7}, 4), std::nullopt) << "the token of the last step was dropped";
  EXPECT_EQ(slots.take(RequestId{7}, 4), slot) << "the request keeps its slot";
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{7}, 5), slot);
  slots.begin_step();
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{7}, 7), std::nullopt) << "the host chose a token in between";
}

TEST(CountSlots, a_slot_belongs_to_one_row_of_a_step) {
  CountSlots slots(2);
  slots.begin_step();
  const auto first = slots.take(RequestId{1}, 0);
  const auto second = slots.take(RequestId{2}, 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(slots.take(RequestId{3}, 0), std::nullopt);
  EXPECT_EQ(slots.take(RequestId{1}, 0), std::nullopt);
  EXPECT_EQ(slots.use(RequestId{1}, 1), std::nullopt);
}

TEST(CountSlots, a_new_request_takes_the_slot_that_was_unused_for_the_longest_time) {
  CountSlots slots(3);
  for (const uint64_t id : {1, 2, 3}) {
    slots.begin_step();
    EXPECT_TRUE(slots.take(RequestId{id}, 0));
  }
  slots.begin_step();
  const auto of_first = slots.use(RequestId{1}, 1);
  const auto of_fourth = slots.take(RequestId{4}, 0);
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{2}, 1), std::nullopt) << "request 4 has its slot";
  EXPECT_EQ(slots.use(RequestId{4}, 1), of_fourth);
  EXPECT_EQ(slots.use(RequestId{1}, 2), of_first);
  EXPECT_TRUE(slots.use(RequestId{3}, 1));
}

TEST(CountSlots, without_slots_there_is_none) {
  CountSlots slots(0);
  slots.begin_step();
  EXPECT_EQ(slots.use(RequestId{1}, 0), std::nullopt);
  EXPECT_EQ(slots.take(RequestId{1}, 0), std::nullopt);
}

}  // namespace
}  // namespace reprise::runner
