#pragma once

#include <chrono>

#include "reprise/engine/step_profiler.h"
#include "reprise/runner/step_times.h"

namespace reprise::engine {

/// Where the time of steps goes: summed up always, step by step while a profiler records. One
/// thread: the one that takes the results of steps.
struct StepClock {
  StepTimes times;
  StepProfiler profiler;

  void add(const PhaseSpan& span) noexcept {
    times[span.phase] += span.seconds();
    profiler.add_span(span.phase, span.begin, span.end);
  }
};

/// Adds the time of its life to a phase; two readings of the clock.
class PhaseTimer {
 public:
  PhaseTimer(StepClock& clock, StepPhase phase) noexcept : clock_(&clock), phase_(phase) {}
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  ~PhaseTimer() {
    clock_->add({.phase = phase_, .begin = begin_, .end = std::chrono::steady_clock::now()});
  }

 private:
  StepClock* clock_;  // of the engine core
  StepPhase phase_;
  TimePoint begin_ = std::chrono::steady_clock::now();
};

/// A step, for a profiler that records.
class ProfiledStepScope {
 public:
  ProfiledStepScope(StepClock& clock, uint64_t number, TimePoint began)
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
