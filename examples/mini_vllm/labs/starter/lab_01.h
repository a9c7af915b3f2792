#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "not_yet.h"

/// Lab 01, starter: see ../01_graph_replay.md.
namespace course {

using Values = std::vector<float>;
using LabOp = std::function<void(Values&)>;  // works in place on one row of numbers

/// Counts launches: the price that the host pays for starting work, whatever the work is.
class LaunchCounter {
 public:
  void bump(uint64_t launches = 1) { count_ += launches; }
  [[nodiscard]] uint64_t count() const { return count_; }
  void reset() { count_ = 0; }

 private:
  uint64_t count_ = 0;
};

/// Runs the ops one after the other: every op is one launch.
inline Values run_eager(LaunchCounter&, std::span<const LabOp>, Values) { not_yet("run_eager"); }

/// One recording per shape. The first call of a shape captures; a later call copies its input into
/// the static buffer and replays all ops as one launch.
class GraphRunner {
 public:
  /// `counter` must outlive the runner.
  GraphRunner(LaunchCounter& counter, std::vector<LabOp> ops)
      : counter_(&counter), ops_(std::move(ops)) {}

  Values operator()(const Values&) { not_yet("capture or replay"); }

  /// Replays without a copy: what a caller gets who forgets it.
  Values replay(size_t) { not_yet("replay"); }

  [[nodiscard]] size_t num_captured() const { not_yet("num_captured"); }

 private:
  LaunchCounter* counter_;
  std::vector<LabOp> ops_;
};

}  // namespace course
