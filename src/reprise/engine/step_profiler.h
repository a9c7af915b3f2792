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

/// Steps that a profile holds, at most: the last ones. About 11 MiB, and 35 MB as a trace.
inline constexpr size_t kMaxProfiledSteps = size_t{1} << 15;

/// vLLM's names and defaults.
struct StepProfilerOptions {
  uint64_t delay_iterations = 0;  // steps that are let by first
  uint64_t max_iterations = 0;    // steps recorded after them; 0: all, of which the last are kept
};

/// One step: what was decided, and when it did what.
struct ProfiledStep {
  uint64_t number = 0;  // 1 is the first step of the engine; one that failed has that of the next
  TimePoint begin;
  TimePoint end;                 // of its last span, so with the delivery of its tokens
  cudagraph::Decision decision;  // the last: a step whose graph was retired made two
  int32_t num_tokens = 0;        // before padding
  int32_t num_reqs = 0;
  bool has_failed = false;
  uint8_t num_spans = 0;
  std::array<PhaseSpan, StepSpans::kMax> spans;

  [[nodiscard]] int32_t num_padding_tokens() const noexcept {
    return decision.descriptor.num_tokens - num_tokens;
  }
};

/// What was recorded between start and stop, oldest step first.
struct StepProfile {
  TimePoint began;
  TimePoint ended;
  std::chrono::system_clock::time_point wall_began;
  std::vector<ProfiledStep> steps;     // two in a row may overlap, if one was scheduled ahead
  uint64_t num_overwritten_steps = 0;  // recorded, but more than kMaxProfiledSteps ago
};

/// Records steps while asked to; otherwise each call is one comparison. One thread: the one that
/// takes the results of steps. Memory is taken when recording starts and is kMaxProfiledSteps at
/// most.
///
/// States: idle -> recording (start) -> idle (stop). A step begins, is told its decision and its
/// spans, and ends; spans that follow until the next one begins still belong to it. A step without
/// a decision had nothing to do and is forgotten.
class StepProfiler {
 public:
  /// False, and nothing happens, while it records. \throws std::bad_alloc
  [[nodiscard]] bool start(const StepProfilerOptions& options);
  /// Nothing while it does not record.
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
  uint64_t num_kept_ = 0;             // of these in the profile, or were
  std::optional<ProfiledStep> open_;  // not yet in the profile
  bool is_decided_ = false;           // the open step
};

}  // namespace reprise::engine
