#pragma once

#include <cstdint>
#include <optional>

/// Lab 02, solution: see ../02_launch_overhead.md.
namespace course {

/// Costs in launches. The first call of a shape costs `capture_cost`; each later call costs one.
struct LaunchCosts {
  int64_t num_ops = 1;
  int64_t capture_cost = 1;

  [[nodiscard]] int64_t eager(int64_t calls) const { return calls * num_ops; }
  [[nodiscard]] int64_t replayed(int64_t calls) const {
    return calls == 0 ? 0 : capture_cost + calls - 1;
  }
  /// The first call after which graphs have cost less than eager; nullopt if there is none.
  [[nodiscard]] std::optional<int64_t> break_even() const {
    // capture_cost + k - 1 < k * num_ops
    if (num_ops <= 1) return capture_cost < 1 ? std::optional<int64_t>(1) : std::nullopt;
    return (capture_cost - 1) / (num_ops - 1) + 1;
  }
  [[nodiscard]] double gain(int64_t calls) const {
    return static_cast<double>(eager(calls)) / static_cast<double>(replayed(calls));
  }
};

/// How much faster a step becomes if launching was `launch_share` of its time (Amdahl's law).
[[nodiscard]] inline double step_speedup(double launch_share, int64_t num_ops) {
  return 1 / (1 - launch_share + launch_share / static_cast<double>(num_ops));
}

}  // namespace course
