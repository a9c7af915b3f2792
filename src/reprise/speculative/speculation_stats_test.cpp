#include "reprise/speculative/speculation_stats.h"

#include <gtest/gtest.h>

namespace reprise::speculative {
namespace {

TEST(SpeculationStats, count_runs_tokens_and_positions) {
  SpeculationStats stats(3);
  EXPECT_EQ(stats.mean_acceptance_length(), 0);
  stats.observe(3, 3);
  stats.observe(2, 0);
  stats.observe(3, 1);
  EXPECT_EQ(stats.num_drafts, 3);
  EXPECT_EQ(stats.num_draft_tokens, 8);
  EXPECT_EQ(stats.num_accepted_tokens, 4);
  EXPECT_EQ(stats.num_accepted_tokens_per_pos, (std::vector<uint64_t>{2, 1, 1}));
  EXPECT_DOUBLE_EQ(stats.mean_acceptance_length(), 1 + 4.0 / 3);
}

TEST(SpeculationStats, tell_what_came_since) {
  SpeculationStats stats(2);
  stats.observe(2, 2);
  const SpeculationStats earlier = stats;
  stats.observe(1, 1);
  const SpeculationStats difference = stats.since(earlier);
  EXPECT_EQ(difference.num_drafts, 1);
  EXPECT_EQ(difference.num_accepted_tokens_per_pos, (std::vector<uint64_t>{1, 0}));
  EXPECT_EQ(stats.since({}), stats);
}

TEST(SpeculationStats, are_off_without_drafts) {
  EXPECT_FALSE(SpeculationStats().is_enabled());
  EXPECT_TRUE(SpeculationStats(1).is_enabled());
}

}  // namespace
}  // namespace reprise::speculative
