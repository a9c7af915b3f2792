#pragma once

#include <cstdint>

#include "mini_vllm/mini_vllm.h"
#include "not_yet.h"

/// Lab 04, starter: see ../04_graph_vs_eager.md.
namespace course {

struct Measured {
  uint64_t eager_launches = 0;  // of one call
  uint64_t graph_launches = 0;
  double eager_seconds = 0;  // of all calls
  double graph_seconds = 0;
  bool results_are_equal = false;
};

/// Runs `num_ops` ops on rows of `batch` numbers, `calls` times eagerly and `calls` times as a
/// graph of the real device. The graph is captured before the clock starts.
[[nodiscard]] inline Measured measure(mini_vllm::Machine&, int32_t, int32_t, int32_t) {
  not_yet("measure");
}

}  // namespace course
