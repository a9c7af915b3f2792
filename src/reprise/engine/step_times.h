#pragma once

#include <array>
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

[[nodiscard]] constexpr std::string_view name(StepPhase phase) noexcept {
  return kStepPhaseNames.at(static_cast<size_t>(phase));
}

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
