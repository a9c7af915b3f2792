#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "mini_vllm/mini_vllm.h"

/// Lab 04, solution: see ../04_graph_vs_eager.md.
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
[[nodiscard]] inline Measured measure(mini_vllm::Machine& machine,
                                      int32_t num_ops,
                                      int32_t batch,
                                      int32_t calls) {
  const std::vector<mini_vllm::Op> ops(static_cast<size_t>(num_ops),
                                       mini_vllm::Op{.scale = 0.5F, .offset = 1});
  const mini_vllm::Values x(static_cast<size_t>(batch), 3);
  mini_vllm::GraphRunner graph(machine, ops);
  Measured result;
  result.results_are_equal = graph(x) == run_eager(machine, ops, x);
  const auto timed = [&](auto&& call, uint64_t& launches, double& seconds) {
    const uint64_t before = machine.launches();
    const auto start = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < calls; ++i) call();
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    launches = (machine.launches() - before) / static_cast<uint64_t>(calls);
  };
  timed([&] { run_eager(machine, ops, x); }, result.eager_launches, result.eager_seconds);
  timed([&] { graph(x); }, result.graph_launches, result.graph_seconds);
  return result;
}

}  // namespace course
