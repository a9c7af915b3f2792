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

/// The most steps that a profile holds; a longer recording keeps the last ones. The steps take
/// about 11 MiB, and 35 MB as a trace.
inline constexpr size_t kMaxProfiledSteps = size_t{1} << 15;

/// vLLM's names and defaults.
struct StepProfilerOptions {
  uint64_t delay_iterations = 0;  // steps before the first recorded one
  uint64_t max_iterations = 0;    // recorded steps; 0: all, and the last ones are kept
};

/// One step: its decision, and when its phases ran.
struct ProfiledStep {
  uint64_t number =
      0;  // 1 is the engine's first step; a failed step has the number of the next one
  TimePoint begin;
  TimePoint end;                 // of the last span, which delivers the tokens
  cudagraph::Decision decision;  // the last decision: a step whose graph is retired has two
  int32_t num_tokens = 0;        // before padding
  int32_t num_reqs = 0;
  bool has_failed = false;
  uint8_t num_spans = 0;
  std::array<PhaseSpan, StepSpans::kMax> spans;

  [[nodiscard]] int32_t num_padding_tokens() const noexcept {
    return decision.descriptor.num_tokens - num_tokens;
  }
};

/// The recording between start and stop, oldest step first.
struct StepProfile {
  TimePoint began;
  TimePoint ended;
  std::chrono::system_clock::time_point wall_began;
  std::vector<ProfiledStep> steps;     // neighbours overlap when one was scheduled ahead
  uint64_t num_overwritten_steps = 0;  // recorded, but more than kMaxProfiledSteps ago
};

/// Records steps between start() and stop(); at other times each call costs one comparison. Used
/// only by the thread that takes the results of steps. start() allocates memory for
/// kMaxProfiledSteps steps.
///
/// States: idle -> recording (start) -> idle (stop). Each step has a begin, a decision, spans and
/// an end; spans after the end belong to it too, until the next step begins. A step without a
/// decision had nothing to do and is not recorded.
class StepProfiler {
 public:
  /// Returns false and changes nothing while a recording runs. \throws std::bad_alloc
  [[nodiscard]] bool start(const StepProfilerOptions& options);
  /// nullopt when no recording runs.
  [[nodiscard]] std::optional<StepProfile> stop();

  void begin_step(uint64_t number, TimePoint began);
  void decide(const cudagraph::BatchFacts& facts, const cudagraph::Decision& decision) noexcept;
  void fail_step() noexcept;
  void add_span(StepPhase phase, TimePoint begin, TimePoint end) noexcept;
  void end_step(TimePoint now) noexcept;

 private:
  void keep_open_step();

  std::optional<StepProfile> profile_;  // being recorded; its steps are a ring once it is full
  StepProfilerOptions options_;
  uint64_t num_decided_ = 0;          // steps since start
  uint64_t num_kept_ = 0;             // recorded steps, including overwritten ones
  std::optional<ProfiledStep> open_;  // not yet in the profile
  bool is_decided_ = false;           // the open step
};

}  // namespace reprise::engine
