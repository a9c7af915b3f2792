#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::engine {

/// What the engine's thread does in a step, in order.
enum class StepPhase : uint8_t {
  schedule,    // which requests, how many tokens each, which blocks
  prepare,     // the batch into its persistent buffers
  launch,      // dispatch and hand the work to the device; the work itself where that is the caller
  wait,        // for the device
  sample,      // logits to tokens, and what they change
  detokenise,  // tokens to text, and the text to whoever asked
};
inline constexpr size_t kNumStepPhases = static_cast<size_t>(StepPhase::detokenise) + 1;
inline constexpr std::array<std::string_view, kNumStepPhases> kStepPhaseNames = {
    "schedule", "prepare", "launch", "wait", "sample", "detokenise"};

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

/// Adds the time of its life to a phase; two readings of the clock.
class PhaseTimer {
 public:
  PhaseTimer(StepTimes& times, StepPhase phase) noexcept : seconds_(&times[phase]) {}
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;
  ~PhaseTimer() {
    *seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double* seconds_;  // of the StepTimes that the caller owns
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace reprise::engine
