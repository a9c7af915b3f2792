#pragma once

#include <cstdint>
#include <optional>

#include "not_yet.h"

/// Lab 02, starter: see ../02_launch_overhead.md.
namespace course {

/// Costs in launches. The first call of a shape costs `capture_cost`; each later call costs one.
struct LaunchCosts {
  int64_t num_ops = 1;
  int64_t capture_cost = 1;

  [[nodiscard]] int64_t eager(int64_t) const { not_yet("eager"); }
  [[nodiscard]] int64_t replayed(int64_t) const { not_yet("replayed"); }
  /// The first call after which graphs have cost less than eager; nullopt if there is none.
  [[nodiscard]] std::optional<int64_t> break_even() const { not_yet("break_even"); }
  [[nodiscard]] double gain(int64_t) const { not_yet("gain"); }
};

/// How much faster a step becomes if launching was `launch_share` of its time (Amdahl's law).
[[nodiscard]] inline double step_speedup(double, int64_t) { not_yet("step_speedup"); }

}  // namespace course
