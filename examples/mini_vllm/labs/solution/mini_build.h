#pragma once

#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "lab_01.h"

/// The mini build, solution: see ../mini_build.md.
namespace course {

struct SplitOp {
  LabOp run;
  bool is_capturable = true;  // attention is the op that is not
};

/// Captures the runs of capturable ops and launches the others between them.
class PiecewiseGraphRunner {
 public:
  /// `counter` must outlive the runner.
  PiecewiseGraphRunner(LaunchCounter& counter, std::span<const SplitOp> ops) : counter_(&counter) {
    for (size_t i = 0; i < ops.size();) {
      std::vector<LabOp> run;
      const bool is_capturable = ops[i].is_capturable;
      for (; i < ops.size() && ops[i].is_capturable == is_capturable; ++i)
        run.push_back(ops[i].run);
      if (is_capturable) {
        segments_.emplace_back(GraphRunner(counter, std::move(run)));
      } else {
        segments_.emplace_back(std::move(run));
      }
    }
  }

  Values operator()(Values x) {
    for (Segment& segment : segments_) {
      if (auto* graph = std::get_if<GraphRunner>(&segment)) {
        x = (*graph)(x);
      } else {
        x = run_eager(*counter_, std::get<std::vector<LabOp>>(segment), std::move(x));
      }
    }
    return x;
  }

  [[nodiscard]] size_t num_graphs() const {
    size_t count = 0;
    for (const Segment& segment : segments_)
      count += std::holds_alternative<GraphRunner>(segment) ? 1 : 0;
    return count;
  }

 private:
  using Segment = std::variant<GraphRunner, std::vector<LabOp>>;

  LaunchCounter* counter_;
  std::vector<Segment> segments_;
};

}  // namespace course
