#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/step_times.h"

namespace reprise::engine {

/// The largest number of steps in a profile. A longer recording keeps the newest steps. This many
/// steps take about 11 MiB in memory, and 35 MB as a trace file.
inline constexpr size_t kMaxProfiledSteps = size_t{1} << 15;

/// Names and defaults are those of vLLM.
struct StepProfilerOptions {
  uint64_t delay_iterations = 0;  // steps before recording starts
  // Number of steps to record; 0: all (a full profile drops its oldest steps).
  uint64_t max_iterations = 0;
};

/// One recorded step: its dispatch decision, and when its phases ran.
struct ProfiledStep {
  uint64_t number =
      0;  // 1 is the engine's first step. A failed step and the step after it have the same number.
  runner::TimePoint begin;
  runner::TimePoint end;  // end of the last span, in which the tokens are delivered
  // The decision that the step ran with, also if an earlier graph was retired.
  cudagraph::Decision decision;
  int32_t num_tokens = 0;  // before padding
  int32_t num_reqs = 0;
  bool has_failed = false;
  uint8_t num_spans = 0;
  std::array<runner::PhaseSpan, runner::StepSpans::kMax> spans;

  [[nodiscard]] int32_t num_padding_tokens() const noexcept {
    return decision.descriptor.num_tokens - num_tokens;
  }
};

/// A recording from start() to stop(), oldest step first.
struct StepProfile {
  runner::TimePoint began;
  runner::TimePoint ended;
  std::chrono::system_clock::time_point wall_began;
  std::vector<ProfiledStep> steps;  // a step that was scheduled ahead overlaps the step before it
  uint64_t num_overwritten_steps = 0;  // steps that were dropped because the profile was full
};

/// Records steps between start() and stop(). Outside of a recording each call costs only one
/// comparison. Used only by the thread that takes the results of steps. start() allocates memory
/// for kMaxProfiledSteps steps.
///
/// States: idle -> recording (start) -> idle (stop). Each step has a begin, a decision, spans and
/// an end. Spans that are added after the end of a step still belong to it, until the next step
/// begins. A step without a decision had nothing to do and is not recorded.
class StepProfiler {
 public:
  /// Starts a recording. Returns false and changes nothing if a recording is running. \throws
  /// std::bad_alloc
  [[nodiscard]] bool start(const StepProfilerOptions& options);
  /// Ends the recording and returns it. nullopt if no recording is running.
  [[nodiscard]] std::optional<StepProfile> stop();

  void begin_step(uint64_t number, runner::TimePoint began);
  void decide(const cudagraph::BatchFacts& facts, const cudagraph::Decision& decision) noexcept;
  void fail_step() noexcept;
  void add_span(runner::StepPhase phase, runner::TimePoint begin, runner::TimePoint end) noexcept;
  void end_step(runner::TimePoint now) noexcept;

 private:
  void keep_open_step();

  // The running recording; when it is full, `steps` is used as a ring.
  std::optional<StepProfile> profile_;
  StepProfilerOptions options_;
  uint64_t num_decided_ = 0;          // steps with a decision since start()
  uint64_t num_kept_ = 0;             // steps recorded, including those overwritten later
  std::optional<ProfiledStep> open_;  // the current step, not yet in the profile
  bool is_decided_ = false;           // whether the current step has its decision
};

}  // namespace reprise::engine
