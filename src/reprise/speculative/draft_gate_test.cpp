#include "reprise/speculative/draft_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::speculative {
namespace {

/// The numbers of steps between tries in which all drafts fail.
std::vector<int> pauses(DraftGate& gate, int num_tries) {
  std::vector<int> result;
  for (int i = 0; i < num_tries; ++i) {
    int num_steps = 0;
    for (; !gate.is_open(); ++num_steps) gate.pass_step();
    result.push_back(num_steps);
    gate.observe(4, 0);
  }
  return result;
}

TEST(DraftGate, pauses_after_four_failures_and_then_ever_longer) {
  DraftGate gate;
  EXPECT_EQ(pauses(gate, 7), (std::vector{0, 0, 0, 0, 24, 48, 96}));
}

TEST(DraftGate, a_pause_has_a_longest_length) {
  DraftGate gate;
  EXPECT_EQ(pauses(gate, 20).back(), 1024);
}

TEST(DraftGate, stays_open_while_half_of_the_drafts_are_accepted) {
  DraftGate gate;
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(gate.is_open()) << i;
    gate.observe(4, i % 2 == 0 ? 4 : 0);
  }
}

TEST(DraftGate, a_new_request_pauses_first_where_the_drafts_of_all_requests_fail) {
  RecentAcceptance of_all;
  EXPECT_TRUE(DraftGate(of_all).is_open()) << "nothing is known yet";
  for (int i = 0; i < 4; ++i) of_all.observe(4, 0);
  DraftGate gate(of_all);
  EXPECT_EQ(pauses(gate, 3), (std::vector{24, 48, 96}));
  of_all.observe(4, 4);
  EXPECT_TRUE(DraftGate(of_all).is_open());
}

TEST(DraftGate, one_good_try_ends_the_pause_and_the_next_result_decides) {
  DraftGate gate;
  (void)pauses(gate, 6);
  while (!gate.is_open()) gate.pass_step();
  gate.observe(4, 2);
  EXPECT_TRUE(gate.is_open());
  gate.observe(4, 0);
  EXPECT_FALSE(gate.is_open());
  EXPECT_EQ(pauses(gate, 1), std::vector{24});
}

}  // namespace
}  // namespace reprise::speculative
