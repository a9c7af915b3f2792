#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise::engine {

/// What is done in a step, in order.
enum class StepPhase : uint8_t {
  schedule,    // which requests, how many tokens each, which blocks
  prepare,     // the batch into its persistent buffers
  launch,      // dispatch and hand the work to the device; the work itself where that is the caller
  wait,        // for the device, or for the thread that computes steps
  sample,      // logits to tokens, and what they change
  detokenise,  // tokens to text, and the text to whoever asked
};
inline constexpr size_t kNumStepPhases = static_cast<size_t>(StepPhase::detokenise) + 1;
inline constexpr std::array<std::string_view, kNumStepPhases> kStepPhaseNames = {
    "schedule", "prepare", "launch", "wait", "sample", "detokenise"};

[[nodiscard]] constexpr std::string_view name(StepPhase phase) noexcept {
  return kStepPhaseNames.at(static_cast<size_t>(phase));
}

using TimePoint = std::chrono::steady_clock::time_point;

/// One stretch of a step. A phase may come in several.
struct PhaseSpan {
  StepPhase phase = StepPhase::schedule;
  TimePoint begin;
  TimePoint end;

  [[nodiscard]] double seconds() const noexcept {
    return std::chrono::duration<double>(end - begin).count();
  }
};

/// The stretches of one step, whichever threads it goes through: one at a time.
class StepSpans {
 public:
  /// A step has eight, nine where the device samples; two more when its graph is retired.
  static constexpr size_t kMax = 11;

  void clear() noexcept { num_ = 0; }
  /// No effect when there are kMax.
  void add(const PhaseSpan& span) noexcept {
    if (num_ < kMax) spans_[num_++] = span;
  }
  void add(const StepSpans& others) noexcept {
    for (const PhaseSpan& span : others.all()) add(span);
  }
  [[nodiscard]] std::span<const PhaseSpan> all() const noexcept {
    return std::span(spans_).first(num_);
  }

 private:
  std::array<PhaseSpan, kMax> spans_;
  size_t num_ = 0;
};

/// Adds a stretch, its life; two readings of the clock.
class SpanTimer {
 public:
  SpanTimer(StepSpans& spans, StepPhase phase) noexcept : spans_(&spans), phase_(phase) {}
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;
  ~SpanTimer() {
    spans_->add({.phase = phase_, .begin = begin_, .end = std::chrono::steady_clock::now()});
  }

 private:
  StepSpans* spans_;  // of the step
  StepPhase phase_;
  TimePoint begin_ = std::chrono::steady_clock::now();
};

/// Where the time of steps went, in seconds since the start.
struct StepTimes {
  std::array<double, kNumStepPhases> seconds{};

  [[nodiscard]] double& operator[](StepPhase phase) noexcept {
    return seconds[static_cast<size_t>(phase)];
  }
  [[nodiscard]] double operator[](StepPhase phase) const noexcept {
    return seconds[static_cast<size_t>(phase)];
  }
};

}  // namespace reprise::engine
