#include "reprise/compile/collective_limits.h"

#include <span>

namespace reprise::compile {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kKiB = int64_t{1} << 10;

struct Limit {
  int compute_capability;
  int64_t ranks;
  int64_t bytes;
};

// The source of the three tables is vLLM@7cfb97e, passes/fusion/sequence_parallelism.py and
// allreduce_rms_fusion.py. We did not measure these numbers ourselves.
constexpr Limit kFusedAllReduce[] = {
    {90, 2, 64 * kMiB},
    {90, 4, 2 * kMiB},
    {90, 8, 512 * kKiB},
    {100, 2, 64 * kMiB},
    {100, 4, 32 * kMiB},
    {100, 8, 1 * kMiB},
    {100, 16, 64 * kMiB},
    {103, 2, 64 * kMiB},
    {103, 4, 64 * kMiB},
    {103, 8, 2 * kMiB},
    {103, 16, 64 * kMiB},
    {107, 2, 64 * kMiB},
    {107, 4, 64 * kMiB},
    {107, 8, 2 * kMiB},
};
constexpr Limit kOneShotAllReduce[] = {
    {90, 2, 32 * kMiB},
    {90, 4, 2 * kMiB},
    {90, 8, 512 * kKiB},
    {100, 2, 32 * kMiB},
    {100, 4, 4 * kMiB},
    {100, 8, 1 * kMiB},
    {103, 2, 32 * kMiB},
    {103, 4, 4 * kMiB},
    {103, 8, 2 * kMiB},
    {107, 2, 32 * kMiB},
    {107, 4, 4 * kMiB},
    {107, 8, 2 * kMiB},
};

std::optional<int64_t> find(std::span<const Limit> limits, const CollectiveTarget& target) {
  if (target.accelerator != Accelerator::cuda) return std::nullopt;
  for (const Limit& limit : limits) {
    if (limit.compute_capability == target.compute_capability && limit.ranks == target.ranks) {
      return limit.bytes;
    }
  }
  return std::nullopt;
}

// In bytes per rank. For smaller sums, sequence parallelism saves less time in norms than its
// additional exchange costs.
std::optional<int64_t> sequence_parallel_min_bytes(const CollectiveTarget& target,
                                                   int64_t hidden_size) {
  if (target.accelerator == Accelerator::xpu) {
    return hidden_size >= 4096 ? std::optional(8 * kMiB) : std::nullopt;
  }
  if (target.accelerator != Accelerator::cuda || hidden_size < 8192) return std::nullopt;
  if (target.compute_capability == 90) return 8 * kMiB;
  return target.compute_capability / 10 == 10 ? std::optional(32 * kMiB) : std::nullopt;
}

}  // namespace

std::optional<int64_t> sequence_parallel_min_token_num(const CollectiveTarget& target,
                                                       int64_t hidden_size,
                                                       int64_t element_bytes) {
  const std::optional<int64_t> bytes = sequence_parallel_min_bytes(target, hidden_size);
  if (!bytes) return std::nullopt;
  return *bytes * target.ranks / (hidden_size * element_bytes);
}

std::optional<int64_t> allreduce_fusion_max_token_num(const CollectiveTarget& target,
                                                      int64_t hidden_size,
                                                      int64_t element_bytes) {
  const std::optional<int64_t> bytes = find(kFusedAllReduce, target);
  if (!bytes) return std::nullopt;
  return *bytes / (hidden_size * element_bytes);
}

std::optional<bool> uses_one_shot_all_reduce(AllReduceWorkspace workspace,
                                             const CollectiveTarget& target,
                                             int64_t tensor_bytes) {
  if (workspace == AllReduceWorkspace::multi_node_nvlink) return std::nullopt;
  const std::optional<int64_t> limit = find(kOneShotAllReduce, target);
  return !limit || tensor_bytes <= *limit;
}

}  // namespace reprise::compile
