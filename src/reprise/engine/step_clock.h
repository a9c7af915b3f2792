#pragma once

#include <chrono>

#include "reprise/engine/step_profiler.h"
#include "reprise/runner/step_times.h"

namespace reprise::engine {

/// The times of steps by phase: sums over all steps and, while the profiler records, each step's
/// spans. Used only by the thread that takes the results of steps.
struct StepClock {
  runner::StepTimes times;
  StepProfiler profiler;

  void add(const runner::PhaseSpan& span) noexcept {
    times[span.phase] += span.seconds();
    profiler.add_span(span.phase, span.begin, span.end);
  }
};

/// Tells the profiler when a step begins and, when the scope is left, that it ended.
class ProfiledStepScope {
 public:
  ProfiledStepScope(StepClock& clock, uint64_t number, runner::TimePoint began)
      : profiler_(&clock.profiler) {
    profiler_->begin_step(number, began);
  }
  ProfiledStepScope(const ProfiledStepScope&) = delete;
  ProfiledStepScope& operator=(const ProfiledStepScope&) = delete;
  ~ProfiledStepScope() { profiler_->end_step(std::chrono::steady_clock::now()); }

 private:
  StepProfiler* profiler_;  // of the clock
};

}  // namespace reprise::engine
