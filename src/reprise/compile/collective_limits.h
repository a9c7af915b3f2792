#pragma once

#include <cstdint>
#include <optional>

/// For which batch sizes passes rewrite collective ops. The functions depend only on the machine
/// and the model.
namespace reprise::compile {

enum class Accelerator : uint8_t { cpu, cuda, xpu };

/// The machine on which collectives run.
struct CollectiveTarget {
  Accelerator accelerator = Accelerator::cpu;
  int compute_capability = 0;  // of CUDA GPUs, 90 is Hopper; 0: unknown
  int64_t ranks = 1;           // of the tensor-parallel group
};

/// The smallest number of tokens for which sequence parallelism saves time; nullopt if it never
/// does. \pre all sizes are > 0
[[nodiscard]] std::optional<int64_t> sequence_parallel_min_token_num(const CollectiveTarget& target,
                                                                     int64_t hidden_size,
                                                                     int64_t element_bytes);

/// The largest number of tokens that a fused launch of all-reduce, addition and norm can handle;
/// nullopt if there is no such launch.
[[nodiscard]] std::optional<int64_t> allreduce_fusion_max_token_num(const CollectiveTarget& target,
                                                                    int64_t hidden_size,
                                                                    int64_t element_bytes);

/// Which library's memory the ranks use to exchange data.
enum class AllReduceWorkspace : uint8_t { trtllm, multi_node_nvlink };

/// true: one exchange, in which every rank gets and sums all data. false: two exchanges: each rank
/// first sums its own part. nullopt: the library chooses.
[[nodiscard]] std::optional<bool> uses_one_shot_all_reduce(AllReduceWorkspace workspace,
                                                           const CollectiveTarget& target,
                                                           int64_t tensor_bytes);

}  // namespace reprise::compile
