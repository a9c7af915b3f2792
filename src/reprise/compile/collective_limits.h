#pragma once

#include <cstdint>
#include <optional>

/// From how many tokens, up to how many bytes: what decides where collectives are rewritten. Pure
/// functions of the machine and the model.
namespace reprise::compile {

enum class Accelerator : uint8_t { cpu, cuda, xpu };

/// What collectives run on.
struct CollectiveTarget {
  Accelerator accelerator = Accelerator::cpu;
  int compute_capability = 0;  // of CUDA: 90 is Hopper; 0 = unknown
  int64_t ranks = 1;           // of the tensor-parallel group
};

/// From how many tokens sequence parallelism pays; nothing where it never does. \pre sizes > 0
[[nodiscard]] std::optional<int64_t> sequence_parallel_min_token_num(const CollectiveTarget& target,
                                                                     int64_t hidden_size,
                                                                     int64_t element_bytes);

/// Up to how many tokens one launch reduces, adds and norms; nothing where there is no such launch.
[[nodiscard]] std::optional<int64_t> allreduce_fusion_max_token_num(const CollectiveTarget& target,
                                                                    int64_t hidden_size,
                                                                    int64_t element_bytes);

/// Which memory the ranks exchange through.
enum class AllReduceWorkspace : uint8_t { trtllm, multi_node_nvlink };

/// Whether every rank sums everything at once, or its part first; nothing = the library's choice.
[[nodiscard]] std::optional<bool> uses_one_shot_all_reduce(AllReduceWorkspace workspace,
                                                           const CollectiveTarget& target,
                                                           int64_t tensor_bytes);

}  // namespace reprise::compile
