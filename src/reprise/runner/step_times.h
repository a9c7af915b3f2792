#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace reprise::runner {

/// The phases of a step, in order.
enum class StepPhase : uint8_t {
  schedule,    // choose the requests, their tokens and their blocks
  prepare,     // write the batch into its persistent buffers
  launch,      // choose and launch the graph or the kernels; on a CPU, also the computation itself
  wait,        // wait for the device, or for the thread that computes the step
  sample,      // turn logits into tokens, and update the requests
  detokenise,  // turn tokens into text, and give the text to the caller
};
inline constexpr size_t kNumStepPhases = static_cast<size_t>(StepPhase::detokenise) + 1;
inline constexpr std::array<std::string_view, kNumStepPhases> kStepPhaseNames = {
    "schedule", "prepare", "launch", "wait", "sample", "detokenise"};

[[nodiscard]] constexpr std::string_view name(StepPhase phase) noexcept {
  return kStepPhaseNames.at(static_cast<size_t>(phase));
}

using TimePoint = std::chrono::steady_clock::time_point;

[[nodiscard]] inline double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One time span of a phase. A phase may have several spans in one step.
struct PhaseSpan {
  StepPhase phase = StepPhase::schedule;
  TimePoint begin;
  TimePoint end;

  [[nodiscard]] double seconds() const noexcept {
    return std::chrono::duration<double>(end - begin).count();
  }
};

/// The time spans of one step. Only one thread at a time may add spans.
class StepSpans {
 public:
  /// A step has eight spans. Sampling on the device and a draft head add one each, and a retired
  /// graph adds two.
  static constexpr size_t kMax = 12;

  void clear() noexcept { num_ = 0; }
  /// Does nothing if there are already kMax spans.
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

/// Measures its own lifetime and adds it to a sink as a span of `phase`. `Sink` is StepSpans or
/// StepClock.
template <typename Sink>
class PhaseTimer {
 public:
  PhaseTimer(Sink& sink, StepPhase phase) noexcept : sink_(&sink), phase_(phase) {}
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  ~PhaseTimer() {
    sink_->add(
        PhaseSpan{.phase = phase_, .begin = begin_, .end = std::chrono::steady_clock::now()});
  }

 private:
  Sink* sink_;  // owned by the step or by the engine core
  StepPhase phase_;
  TimePoint begin_ = std::chrono::steady_clock::now();
};

/// The seconds spent in each phase, summed over all steps since the start.
struct StepTimes {
  std::array<double, kNumStepPhases> seconds{};

  [[nodiscard]] double& operator[](StepPhase phase) noexcept {
    return seconds[static_cast<size_t>(phase)];
  }
  [[nodiscard]] double operator[](StepPhase phase) const noexcept {
    return seconds[static_cast<size_t>(phase)];
  }
};

}  // namespace reprise::runner
