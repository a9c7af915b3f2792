#include "reprise/scheduler/stop_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/scheduler/scheduler_test_support.h"

namespace reprise::scheduler {
namespace {

using testing::Bench;
using testing::kEos;
using testing::kPlain;

/// Runs one request with these sampled tokens; the scheduler applies the StopChecker after each
/// token.
struct Outcome {
  std::string finish_reason;
  int num_output_tokens = 0;
  StopReason stop_reason;
};
Outcome run(sampling::SamplingParams params,
            const std::vector<int32_t>& tokens,
            int max_model_len = 200) {
  SchedulerConfig config = testing::small_config();
  config.max_model_len = max_model_len;
  config.eos_token_ids = {kEos, 3};
  Bench bench(config);
  Request& request = bench.add(4, std::move(params));
  for (const int32_t token : tokens) {
    if (!request.is_finished()) bench.step(token);
  }
  return {std::string(request.finish_reason()), request.num_output_tokens(), request.stop_reason()};
}

TEST(StopChecker, stops_at_every_eos_id_without_a_stop_reason) {
  for (const int32_t eos : {kEos, 3}) {
    const Outcome outcome = run({}, {kPlain, eos, kPlain});
    EXPECT_EQ(outcome.finish_reason, "stop");
    EXPECT_EQ(outcome.num_output_tokens, 2);
    EXPECT_TRUE(std::holds_alternative<std::monostate>(outcome.stop_reason));
  }
}

TEST(StopChecker, names_the_stop_token) {
  const Outcome outcome = run({.stop_token_ids = {50, 51}}, {kPlain, 51});
  EXPECT_EQ(outcome.finish_reason, "stop");
  EXPECT_EQ(std::get<int32_t>(outcome.stop_reason), 51);
}

TEST(StopChecker, ignore_eos_leaves_stop_token_ids_alone) {
  const Outcome outcome = run({.stop_token_ids = {3}, .ignore_eos = true}, {kEos, kEos, 3});
  EXPECT_EQ(outcome.finish_reason, "stop");
  EXPECT_EQ(outcome.num_output_tokens, 3);
  EXPECT_EQ(std::get<int32_t>(outcome.stop_reason), 3);
}

TEST(StopChecker, ends_by_length_at_max_tokens_exactly) {
  for (const int max_tokens : {1, 2, 5}) {
    const Outcome outcome = run({.max_tokens = max_tokens}, std::vector<int32_t>(10, kPlain));
    EXPECT_EQ(outcome.finish_reason, "length");
    EXPECT_EQ(outcome.num_output_tokens, max_tokens);
  }
}

TEST(StopChecker, ends_by_length_when_the_context_is_full) {
  for (const std::optional<int> max_tokens : {std::optional<int>(100), std::optional<int>()}) {
    const Outcome outcome = run({.max_tokens = max_tokens}, std::vector<int32_t>(50, kPlain), 10);
    EXPECT_EQ(outcome.finish_reason, "length");
    EXPECT_EQ(outcome.num_output_tokens, 6);
  }
}

TEST(StopChecker, says_stop_when_eos_is_the_last_token_that_fits) {
  EXPECT_EQ(run({.max_tokens = 2}, {kPlain, kEos}).finish_reason, "stop");
}

TEST(StopChecker, does_not_stop_before_min_tokens_but_length_still_counts) {
  EXPECT_EQ(run({.min_tokens = 3}, {kEos, kEos, kEos}).num_output_tokens, 3);
  EXPECT_EQ(run({.min_tokens = 3, .stop_token_ids = {50}}, {50, 50, 50}).num_output_tokens, 3);
  const Outcome outcome =
      run({.max_tokens = {}, .min_tokens = 50}, std::vector<int32_t>(50, kEos), 10);
  EXPECT_EQ(outcome.finish_reason, "length");
  EXPECT_EQ(outcome.num_output_tokens, 6);
}

TEST(Request, suppresses_eos_and_stop_tokens_until_min_tokens) {
  Bench bench;
  Request& request = bench.add(4, {.min_tokens = 2, .stop_token_ids = {50}, .ignore_eos = true});
  const std::vector<float> logits(testing::kVocabSize, 0.0F);
  for (const size_t num_suppressed : {2, 2, 0, 0}) {
    const sampling::SamplingInput input = request.sampling_input(logits, request.num_tokens());
    EXPECT_EQ(input.suppressed_token_ids.size(), num_suppressed);
    EXPECT_EQ(input.prompt_token_ids.size(), 4U);
    bench.step();
  }
}

TEST(Request, uses_its_own_seed_or_one_derived_from_its_id) {
  const sampling::SamplingParams seeded{.seed = -5};
  EXPECT_EQ(Request(RequestId{1}, {1}, seeded, 10).sampling_seed(),
            Request(RequestId{2}, {1}, seeded, 20).sampling_seed());
  EXPECT_NE(Request(RequestId{1}, {1}, {}, 10).sampling_seed(),
            Request(RequestId{2}, {1}, {}, 10).sampling_seed());
  EXPECT_EQ(Request(RequestId{1}, {1}, {}, 10).sampling_seed(), sampling::derive_seed(10, 1));
}

TEST(RequestStatus, has_vllms_names_and_finish_reasons) {
  EXPECT_EQ(to_string(RequestStatus::finished_length), "FINISHED_LENGTH_CAPPED");
  EXPECT_EQ(finish_reason(RequestStatus::finished_error), "error");
  EXPECT_EQ(finish_reason(RequestStatus::finished_aborted), "abort");
  EXPECT_EQ(finish_reason(RequestStatus::preempted), "");
  EXPECT_FALSE(is_finished(RequestStatus::preempted));
  EXPECT_TRUE(is_finished(RequestStatus::finished_stopped));
}

}  // namespace
}  // namespace reprise::scheduler
