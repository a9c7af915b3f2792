#include "reprise/server/metrics/speculation_log.h"

#include <gtest/gtest.h>

namespace reprise::server {
namespace {

TEST(SpeculationLog, says_what_scripts_look_for_about_the_drafts_since_the_last_line) {
  SpeculationLog log;
  api::EngineStats stats;
  EXPECT_EQ(log.next_line(stats, 10), std::nullopt) << "speculation is off";
  stats.speculation = decltype(stats.speculation)(3);
  EXPECT_EQ(log.next_line(stats, 10), std::nullopt) << "no drafts yet";
  stats.speculation.observe(3, 3);
  stats.speculation.observe(3, 0);
  stats.speculation.observe(2, 1);
  EXPECT_EQ(log.next_line(stats, 2),
            "SpecDecoding metrics: Mean acceptance length: 2.33, Accepted throughput: 2.00 "
            "tokens/s, Drafted throughput: 4.00 tokens/s, Accepted: 4 tokens, Drafted: 8 tokens, "
            "Per-position acceptance rate: 0.667, 0.333, 0.333, Avg Draft acceptance rate: 50.0%");
  EXPECT_EQ(log.next_line(stats, 10), std::nullopt) << "nothing new";
  stats.speculation.observe(1, 0);
  const std::optional<std::string> next = log.next_line(stats, 10);
  ASSERT_TRUE(next.has_value());
  EXPECT_NE(next->find("Accepted: 0 tokens, Drafted: 1 tokens"), std::string::npos) << *next;
}

}  // namespace
}  // namespace reprise::server
