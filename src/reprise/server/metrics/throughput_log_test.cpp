#include "reprise/server/metrics/throughput_log.h"

#include <gtest/gtest.h>

namespace reprise::server {
namespace {

TEST(ThroughputLog, says_what_scripts_look_for) {
  ThroughputLog log;
  EXPECT_EQ(log.next_line({.num_requests_running = 3,
                           .num_requests_waiting = 2,
                           .kv_cache_usage = 0.1234,
                           .prompt_tokens = 1000,
                           .generation_tokens = 55,
                           .prefix_cache_queries = 400,
                           .prefix_cache_hits = 100},
                          10),
            "Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: 5.5 "
            "tokens/s, Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 12.3%, Prefix cache "
            "hit rate: 25.0%");
}

TEST(ThroughputLog, says_zero_once_and_then_nothing_while_nothing_runs) {
  ThroughputLog log;
  EXPECT_EQ(log.next_line({}, 10), std::nullopt);
  EXPECT_TRUE(log.next_line({.generation_tokens = 5}, 10).has_value());
  const auto zero = log.next_line({.generation_tokens = 5}, 10);
  ASSERT_TRUE(zero.has_value());
  EXPECT_NE(zero->find("Avg generation throughput: 0.0 tokens/s"), std::string::npos);
  EXPECT_EQ(log.next_line({.generation_tokens = 5}, 10), std::nullopt);
  EXPECT_TRUE(log.next_line({.generation_tokens = 6}, 10).has_value());
}

TEST(ThroughputLog, forgets_the_hit_rate_of_requests_long_ago) {
  ThroughputLog log;
  api::EngineStats stats;
  stats.requests.time_to_first_token.observe(0.1, 900);
  stats.generation_tokens = 1;
  stats.prefix_cache_queries = 1000;
  (void)log.next_line(stats, 10);
  stats.requests.time_to_first_token.observe(0.1, 900);
  stats.generation_tokens = 2;
  stats.prefix_cache_queries = 2000;
  stats.prefix_cache_hits = 1000;
  const auto line = log.next_line(stats, 10);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->ends_with("Prefix cache hit rate: 100.0%")) << *line;
}

}  // namespace
}  // namespace reprise::server
