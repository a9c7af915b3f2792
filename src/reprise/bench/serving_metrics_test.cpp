#include "reprise/bench/serving_metrics.h"

#include <gtest/gtest.h>

#include "reprise/bench/serving_report.h"

namespace reprise::bench {
namespace {

RequestOutcome answered(double start, double ttft, std::vector<double> itl, int64_t tokens) {
  RequestOutcome outcome{.success = true,
                         .prompt_len = 10,
                         .output_tokens = tokens,
                         .start_time = start,
                         .ttft = ttft,
                         .latency = ttft,
                         .itl = std::move(itl)};
  for (const double gap : outcome.itl) outcome.latency += gap;
  return outcome;
}

LoadResult three_requests() {
  LoadResult result{.duration = 4};
  result.outcomes.push_back(answered(0, 0.5, {0.25, 0.25}, 5));  // several tokens per chunk
  result.outcomes.push_back(answered(1, 0.1, {}, 1));
  result.outcomes.push_back({.error = "503"});
  return result;
}

int64_t no_tokens(std::string_view) { return 0; }

TEST(ServingMetrics, follow_vllms_definitions) {
  const ServingMetrics metrics = compute_metrics(three_requests(), {99}, {}, no_tokens);
  EXPECT_EQ(metrics.completed, 2);
  EXPECT_EQ(metrics.failed, 1);
  EXPECT_EQ(metrics.total_input, 20);
  EXPECT_EQ(metrics.total_output, 6);
  EXPECT_DOUBLE_EQ(metrics.request_throughput, 0.5);
  EXPECT_DOUBLE_EQ(metrics.output_throughput, 1.5);
  EXPECT_DOUBLE_EQ(metrics.total_token_throughput, 6.5);
  EXPECT_DOUBLE_EQ(metrics.ttft.mean, 300);
  EXPECT_DOUBLE_EQ(metrics.ttft.percentiles[0], 100 + 400 * 0.99);
  EXPECT_DOUBLE_EQ(metrics.tpot.mean, 125);  // (1.0 - 0.5) / 4; the answer of one token is left out
  EXPECT_DOUBLE_EQ(metrics.itl.mean, 250);   // per chunk
  EXPECT_DOUBLE_EQ(metrics.e2el.mean, 550);
  EXPECT_EQ(metrics.output_lens, (std::vector<int64_t>{5, 1, 0}));
}

TEST(ServingMetrics, peak_is_over_whole_seconds_since_the_first_start) {
  LoadResult result{.duration = 3};
  result.outcomes.push_back(answered(10.0, 0.9, {0.2, 0.2}, 3));  // at 10.9, 11.1, 11.3
  result.outcomes.push_back(answered(10.5, 0.9, {}, 1));          // at 11.4
  const ServingMetrics metrics = compute_metrics(result, {}, {}, no_tokens);
  EXPECT_DOUBLE_EQ(metrics.max_output_tokens_per_s, 3);
  EXPECT_EQ(metrics.max_concurrent_requests, 2);
}

TEST(ServingMetrics, requests_that_touch_are_not_concurrent) {
  LoadResult result{.duration = 2};
  result.outcomes.push_back(answered(0, 1, {}, 1));
  result.outcomes.push_back(answered(1, 1, {}, 1));
  EXPECT_EQ(compute_metrics(result, {}, {}, no_tokens).max_concurrent_requests, 1);
}

TEST(ServingMetrics, goodput_counts_an_answer_of_one_token_as_tpot_zero) {
  const Goodput strict{.ttft_ms = 200, .tpot_ms = 1};
  EXPECT_DOUBLE_EQ(compute_metrics(three_requests(), {}, strict, no_tokens).request_goodput, 0.25);
  const Goodput loose{.tpot_ms = 125, .e2el_ms = 1000};
  EXPECT_DOUBLE_EQ(compute_metrics(three_requests(), {}, loose, no_tokens).request_goodput, 0.5);
}

TEST(ServingMetrics, without_usage_the_text_is_counted) {
  LoadResult result{.duration = 1};
  result.outcomes.push_back(answered(0, 0.5, {0.5}, 0));
  result.outcomes[0].generated_text = "three short words";
  const ServingMetrics metrics = compute_metrics(
      result, {}, {}, [](std::string_view text) { return text == "three short words" ? 3 : 0; });
  EXPECT_EQ(metrics.total_output, 3);
  EXPECT_DOUBLE_EQ(metrics.tpot.mean, 250);
}

TEST(ServingMetrics, of_nothing_but_failures_are_zero) {
  LoadResult result{.duration = 1};
  result.outcomes.push_back({.error = "refused"});
  const ServingMetrics metrics = compute_metrics(result, {99}, {}, no_tokens);
  EXPECT_EQ(metrics.failed, 1);
  EXPECT_EQ(metrics.ttft.mean, 0);
  EXPECT_EQ(metrics.max_concurrent_requests, 0);
}

TEST(ServingReport, block_has_vllms_rows) {
  const ServingMetrics metrics = compute_metrics(three_requests(), {50, 99.9}, {}, no_tokens);
  const std::string block = console_block(metrics, {.request_rate = 20, .max_concurrency = 8});
  EXPECT_EQ(block.substr(0, 51), "============ Serving Benchmark Result ============\n");
  for (const char* row : {
           "Successful requests:                     2         \n",
           "Failed requests:                         1         \n",
           "Maximum request concurrency:             8         \n",
           "Request rate configured (RPS):           20.00     \n",
           "Benchmark duration (s):                  4.00      \n",
           "Total token throughput (tok/s):          6.50      \n",
           "---------------Time to First Token----------------\n",
           "-----Time per Output Token (excl. 1st token)------\n",
           "---------------Inter-token Latency----------------\n",
           "Mean TTFT (ms):                          300.00    \n",
           "P99.9 ITL (ms):                          250.00    \n",
       }) {
    EXPECT_NE(block.find(row), std::string::npos) << row << block;
  }
  EXPECT_EQ(block.find("E2EL"), std::string::npos);
  EXPECT_EQ(block.find("goodput"), std::string::npos);
}

TEST(ServingReport, floats_are_written_as_python_writes_them) {
  EXPECT_EQ(python_float(20), "20.0");
  EXPECT_EQ(python_float(0.5), "0.5");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace reprise::bench
