#include "reprise/api/request_timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::api {
namespace {

TimePoint at(double seconds) {
  return TimePoint{} +
         std::chrono::duration_cast<TimePoint::duration>(std::chrono::duration<double>(seconds));
}

std::vector<uint64_t> counts(const Histogram& histogram) {
  return {histogram.counts().begin(), histogram.counts().end()};
}

TEST(Histogram, counts_a_bound_into_its_own_bucket_and_what_is_above_all_into_the_last) {
  static constexpr auto kBounds = std::to_array<double>({1, 8, 16});
  Histogram histogram(kBounds);
  for (double value : {0.0, 1.0, 1.5, 8.0, 16.0, 16.1, 1e9}) histogram.observe(value);
  EXPECT_EQ(counts(histogram), (std::vector<uint64_t>{2, 2, 1, 2}));
  EXPECT_EQ(histogram.count(), 7U);
  EXPECT_DOUBLE_EQ(histogram.sum(), 1e9 + 42.6);
}

TEST(RequestHistograms, have_buckets_of_tokens_up_to_the_length_of_the_model) {
  const auto last_bound = [](int64_t max_model_len) {
    return RequestHistograms(max_model_len).prompt_tokens.bounds().back();
  };
  EXPECT_EQ(last_bound(1), 1);
  EXPECT_EQ(last_bound(499), 200);
  EXPECT_EQ(last_bound(500), 500);
  EXPECT_EQ(last_bound(40960), 20000);
  EXPECT_EQ(last_bound(int64_t{1} << 40), 1e7);
}

TEST(RequestTimeline, measures_the_intervals_of_vllm) {
  RequestHistograms histograms(2048);
  RequestTimeline timeline(at(1), at(1.25));
  timeline.schedule(at(2));
  timeline.take_token(at(4), histograms);
  timeline.take_token(at(4.5), histograms);
  timeline.schedule(at(6));  // preempted and recomputed: this does not restart the queue time
  timeline.take_token(at(7), histograms);
  timeline.finish(
      at(7.5),
      {.prompt_tokens = 100, .cached_tokens = 32, .generation_tokens = 3, .max_tokens = 64},
      histograms);
  EXPECT_DOUBLE_EQ(histograms.time_to_first_token.sum(), 3);
  EXPECT_DOUBLE_EQ(histograms.inter_token_latency.sum(), 3);
  EXPECT_EQ(histograms.inter_token_latency.count(), 2U);
  EXPECT_DOUBLE_EQ(histograms.queue_time.sum(), 0.75);
  EXPECT_DOUBLE_EQ(histograms.prefill_time.sum(), 2);
  EXPECT_DOUBLE_EQ(histograms.decode_time.sum(), 3);
  EXPECT_DOUBLE_EQ(histograms.inference_time.sum(), 5);
  EXPECT_DOUBLE_EQ(histograms.e2e_latency.sum(), 6.5);
  EXPECT_DOUBLE_EQ(histograms.time_per_output_token.sum(), 1.5);
  EXPECT_EQ(histograms.prompt_tokens.sum(), 100);
  EXPECT_EQ(histograms.prefill_computed_tokens.sum(), 68);
  EXPECT_EQ(histograms.generation_tokens.sum(), 3);
  EXPECT_EQ(histograms.params_max_tokens.sum(), 64);
}

TEST(RequestTimeline, counts_a_single_token_as_no_time_per_token) {
  RequestHistograms histograms(2048);
  RequestTimeline timeline(at(1), at(1));
  timeline.schedule(at(1));
  timeline.take_token(at(2), histograms);
  timeline.finish(at(2), {.prompt_tokens = 1, .generation_tokens = 1}, histograms);
  EXPECT_EQ(histograms.inter_token_latency.count(), 0U);
  EXPECT_EQ(histograms.time_per_output_token.count(), 1U);
  EXPECT_EQ(histograms.time_per_output_token.sum(), 0);
  EXPECT_EQ(histograms.params_max_tokens.count(), 0U);
}

}  // namespace
}  // namespace reprise::api
