#include "reprise/engine/step_profiler.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/engine/step_trace.h"

namespace reprise::engine {
namespace {

using cudagraph::CudagraphRuntimeMode;
using std::chrono::microseconds;

/// Records a step of 100 us that begins at `begin`, with schedule at 0..10 us and launch at 20..90
/// us.
void run_step(StepProfiler& profiler,
              uint64_t number,
              runner::TimePoint begin,
              int32_t num_tokens = 3) {
  profiler.begin_step(number, begin);
  profiler.add_span(runner::StepPhase::schedule, begin, begin + microseconds(10));
  profiler.decide({.num_tokens = num_tokens, .num_reqs = num_tokens},
                  {.mode = CudagraphRuntimeMode::FULL,
                   .descriptor = {.num_tokens = 4, .num_reqs = 4, .uniform = true},
                   .reason = cudagraph::DispatchReason::full_uniform});
  profiler.add_span(runner::StepPhase::launch, begin + microseconds(20), begin + microseconds(90));
  profiler.end_step(begin + microseconds(100));
}

std::vector<uint64_t> numbers(const StepProfile& profile) {
  std::vector<uint64_t> found;
  for (const ProfiledStep& step : profile.steps) found.push_back(step.number);
  return found;
}

TEST(StepProfiler, records_only_between_start_and_stop) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  EXPECT_FALSE(profiler.stop());
  run_step(profiler, 1, now);
  ASSERT_TRUE(profiler.start({}));
  EXPECT_FALSE(profiler.start({}));
  run_step(profiler, 2, now);
  run_step(profiler, 3, now);
  const auto profile = profiler.stop();
  run_step(profiler, 4, now);
  ASSERT_TRUE(profile);
  EXPECT_EQ(numbers(*profile), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(profile->num_overwritten_steps, 0U);
  EXPECT_FALSE(profiler.stop());
}

TEST(StepProfiler, forgets_steps_that_had_nothing_to_do) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  ASSERT_TRUE(profiler.start({}));
  profiler.begin_step(1, now);
  profiler.add_span(runner::StepPhase::schedule, now, now + microseconds(1));
  profiler.end_step(now + microseconds(1));
  run_step(profiler, 1, now + microseconds(2));
  EXPECT_EQ(profiler.stop()->steps.size(), 1U);
}

TEST(StepProfiler, gives_spans_after_the_end_to_the_step_that_ended) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  ASSERT_TRUE(profiler.start({}));
  run_step(profiler, 1, now);
  profiler.add_span(
      runner::StepPhase::detokenise, now + microseconds(100), now + microseconds(130));
  const auto profile = profiler.stop();
  ASSERT_EQ(profile->steps.size(), 1U);
  EXPECT_EQ(profile->steps[0].num_spans, 3);
  EXPECT_EQ(profile->steps[0].end, now + microseconds(130));
}

TEST(StepProfiler, lets_by_what_is_delayed_and_stops_at_the_most) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  ASSERT_TRUE(profiler.start({.delay_iterations = 2, .max_iterations = 3}));
  for (uint64_t i = 1; i <= 9; ++i) run_step(profiler, i, now);
  EXPECT_EQ(numbers(*profiler.stop()), (std::vector<uint64_t>{3, 4, 5}));
}

TEST(StepProfiler, keeps_the_last_steps_when_there_are_more_than_it_may_hold) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  for (const uint64_t num_extra : {uint64_t{0}, uint64_t{1}, uint64_t{5}, kMaxProfiledSteps + 7}) {
    ASSERT_TRUE(profiler.start({}));
    for (uint64_t i = 1; i <= kMaxProfiledSteps + num_extra; ++i) run_step(profiler, i, now);
    const auto profile = profiler.stop();
    ASSERT_EQ(profile->steps.size(), kMaxProfiledSteps);
    EXPECT_EQ(profile->num_overwritten_steps, num_extra);
    for (size_t i = 0; i < kMaxProfiledSteps; ++i) {
      ASSERT_EQ(profile->steps[i].number, num_extra + i + 1);
    }
  }
}

TEST(StepProfiler, has_room_for_a_bounded_number_of_spans) {
  StepProfiler profiler;
  const runner::TimePoint now = std::chrono::steady_clock::now();
  ASSERT_TRUE(profiler.start({}));
  run_step(profiler, 1, now);
  for (int i = 0; i < 20; ++i)
    profiler.add_span(runner::StepPhase::wait, now, now + microseconds(1));
  const auto profile = profiler.stop();
  EXPECT_EQ(profile->steps[0].num_spans, profile->steps[0].spans.size());
}

TEST(StepTrace, says_what_each_step_did) {
  StepProfiler profiler;
  ASSERT_TRUE(profiler.start({}));
  const runner::TimePoint now = std::chrono::steady_clock::now();
  run_step(profiler, 7, now);
  profiler.fail_step();
  const auto profile = profiler.stop();
  std::ostringstream text;
  write_trace(*profile, text);
  const Json trace = Json::parse(text.str());
  EXPECT_EQ(trace["otherData"]["num_steps"], 1);
  const Json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 5U);  // two names of tracks, the step, two phases
  const Json& step = events[2];
  EXPECT_EQ(step["name"], "FULL 4");
  EXPECT_EQ(step["args"],
            Json({{"step", 7},
                  {"runtime_mode", "FULL"},
                  {"descriptor", "tokens=4 reqs=4 uniform"},
                  {"reason", "full_uniform"},
                  {"tokens", 3},
                  {"requests", 3},
                  {"padding_tokens", 1},
                  {"failed", true}}));
  EXPECT_NEAR(step["dur"], 100, 1e-3);
  EXPECT_EQ(events[4]["name"], "launch");
  EXPECT_NEAR(double(events[4]["ts"]) - double(step["ts"]), 20, 2e-3);
  EXPECT_NEAR(events[4]["dur"], 70, 1e-3);
}

TEST(StepTrace, gives_steps_that_overlap_tracks_of_their_own) {
  StepProfiler profiler;
  ASSERT_TRUE(profiler.start({}));
  const runner::TimePoint now = std::chrono::steady_clock::now();
  // Each step takes 100 us and begins 60 us after the previous one, so neighbours overlap.
  for (int i = 0; i < 4; ++i)
    run_step(profiler, static_cast<uint64_t>(i), now + microseconds(60 * i));
  run_step(profiler, 4, now + microseconds(400));
  std::ostringstream text;
  write_trace(*profiler.stop(), text);
  const Json trace = Json::parse(text.str());
  std::vector<int> tracks;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "step") tracks.push_back(event["tid"]);
  }
  EXPECT_EQ(tracks, (std::vector<int>{1, 2, 1, 2, 1}));
}

TEST(StepTrace, is_a_file_of_its_own_or_none) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "step_trace_test" / "new";
  std::filesystem::remove_all(folder);
  StepProfile profile{.wall_began = std::chrono::system_clock::now()};
  const std::filesystem::path first = save_trace(profile, folder);
  profile.wall_began += microseconds(1);
  const std::filesystem::path second = save_trace(profile, folder);
  EXPECT_NE(first, second);
  size_t num_files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    ++num_files;
    EXPECT_TRUE(file.path().string().ends_with(".pt.trace.json")) << file.path();
  }
  EXPECT_EQ(num_files, 2U);
  EXPECT_THROW((void)save_trace(profile, first), Error);  // `first` is a file, not a folder
}

}  // namespace
}  // namespace reprise::engine
