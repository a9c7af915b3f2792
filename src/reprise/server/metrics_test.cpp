#include "reprise/server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::server {
namespace {

using ::testing::HasSubstr;

TEST(Metrics, name_what_the_engine_counts_as_vllm_does) {
  const std::string text = metrics_text({.num_requests_running = 3,
                                         .num_requests_waiting = 2,
                                         .kv_cache_usage = 0.25,
                                         .prompt_tokens = 11,
                                         .generation_tokens = 12345678901,
                                         .num_finished_abort = 4,
                                         .steps_piecewise = 6},
                                        "m");
  constexpr const char* kLabels = R"({engine="0",model_name="m"})";
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:num_requests_waiting") + kLabels + " 2\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:num_requests_running") + kLabels + " 3\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:kv_cache_usage_perc") + kLabels + " 0.25\n"));
  EXPECT_THAT(text, HasSubstr(std::string("\nvllm:prompt_tokens_total") + kLabels + " 11\n"));
  EXPECT_THAT(
      text, HasSubstr(std::string("\nvllm:generation_tokens_total") + kLabels + " 12345678901\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(vllm:request_success_total{engine="0",model_name="m",finished_reason="abort"} 4)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(reprise:cudagraph_dispatch_total{engine="0",model_name="m",runtime_mode="PIECEWISE"} 6)"));
}

TEST(Metrics, escape_the_name_of_the_model) {
  EXPECT_THAT(metrics_text({}, "a\"b\\c\nd"), HasSubstr(R"(model_name="a\"b\\c\nd")"));
}

}  // namespace
}  // namespace reprise::server
