#pragma once

#include <cstdint>
#include <optional>

/// The batch sizes for which passes rewrite collectives, as pure functions of the machine and the
/// model.
namespace reprise::compile {

enum class Accelerator : uint8_t { cpu, cuda, xpu };

/// The machine on which collectives run.
struct CollectiveTarget {
  Accelerator accelerator = Accelerator::cpu;
  int compute_capability = 0;  // of CUDA: 90 is Hopper; 0 = unknown
  int64_t ranks = 1;           // of the tensor-parallel group
};

/// The smallest number of tokens for which sequence parallelism saves time; nullopt if it never
/// does. \pre sizes > 0
[[nodiscard]] std::optional<int64_t> sequence_parallel_min_token_num(const CollectiveTarget& target,
                                                                     int64_t hidden_size,
                                                                     int64_t element_bytes);

/// The largest number of tokens that one launch can reduce, add and normalise; nullopt if there is
/// no such launch.
[[nodiscard]] std::optional<int64_t> allreduce_fusion_max_token_num(const CollectiveTarget& target,
                                                                    int64_t hidden_size,
                                                                    int64_t element_bytes);

/// The memory through which the ranks exchange data.
enum class AllReduceWorkspace : uint8_t { trtllm, multi_node_nvlink };

/// True: every rank sums all data in one exchange. False: each rank first sums its part. nullopt:
/// the library chooses.
[[nodiscard]] std::optional<bool> uses_one_shot_all_reduce(AllReduceWorkspace workspace,
                                                           const CollectiveTarget& target,
                                                           int64_t tensor_bytes);

}  // namespace reprise::compile
