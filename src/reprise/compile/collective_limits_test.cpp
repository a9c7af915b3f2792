#include "reprise/compile/collective_limits.h"

#include <gtest/gtest.h>

namespace reprise::compile {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct ThresholdCase {
  const char* row;  // name of the row in vLLM's tests
  CollectiveTarget target;
  int64_t hidden_size;
  int64_t element_bytes;
  std::optional<int64_t> tokens;
};
constexpr ThresholdCase kThresholds[] = {
    {"SPT-01, a CPU", {Accelerator::cpu, 0, 2}, 8192, 2, std::nullopt},
    {"SPT-01, sm80", {Accelerator::cuda, 80, 2}, 8192, 2, std::nullopt},
    {"SPT-03", {Accelerator::cuda, 90, 2}, 8192, 2, 1024},
    {"SPT-04", {Accelerator::cuda, 90, 1}, 8192, 2, 512},
    {"SPT-05", {Accelerator::cuda, 90, 1}, 16384, 2, 256},
    {"SPT-06", {Accelerator::cuda, 90, 4}, 8192, 2, 2048},
    {"SPT-07", {Accelerator::cuda, 90, 2}, 8192, 4, 512},
    {"SPT-11", {Accelerator::xpu, 0, 4}, 4096, 2, 4096},
    {"SPT-12", {Accelerator::xpu, 0, 2}, 8192, 2, 1024},
    {"SPT-14, too narrow", {Accelerator::xpu, 0, 2}, 4095, 2, std::nullopt},
    {"SPT-14", {Accelerator::xpu, 0, 2}, 4096, 2, 2048},
    {"rounded down", {Accelerator::cuda, 90, 8}, 12288, 2, 2730},
    {"sm90, too narrow", {Accelerator::cuda, 90, 8}, 8191, 2, std::nullopt},
    {"sm100", {Accelerator::cuda, 100, 2}, 8192, 2, 4096},
    {"sm103, of the same family", {Accelerator::cuda, 103, 2}, 8192, 2, 4096},
};

TEST(CollectiveLimits, sequence_parallelism_begins_at_vllms_numbers_of_tokens) {
  for (const ThresholdCase& c : kThresholds) {
    EXPECT_EQ(sequence_parallel_min_token_num(c.target, c.hidden_size, c.element_bytes), c.tokens)
        << c.row;
  }
}

TEST(CollectiveLimits, fused_all_reduces_end_at_vllms_sizes) {
  const auto max = [](int capability, int64_t ranks) {
    return allreduce_fusion_max_token_num({Accelerator::cuda, capability, ranks}, 4096, 2);
  };
  EXPECT_EQ(max(90, 2), 8192);
  EXPECT_EQ(max(90, 4), 256);
  EXPECT_EQ(max(90, 8), 64);
  EXPECT_EQ(max(90, 16), std::nullopt);
  EXPECT_EQ(max(100, 16), 8192);
  EXPECT_EQ(max(103, 8), 256);
  EXPECT_EQ(max(80, 2), std::nullopt);
  EXPECT_EQ(max(90, 3), std::nullopt);
  EXPECT_EQ(allreduce_fusion_max_token_num({Accelerator::cpu, 0, 2}, 4096, 2), std::nullopt);
}

TEST(CollectiveLimits, small_tensors_are_reduced_in_one_shot) {
  using enum AllReduceWorkspace;
  const CollectiveTarget four{Accelerator::cuda, 100, 4};
  // PAS-20: for this workspace the library chooses.
  EXPECT_EQ(uses_one_shot_all_reduce(multi_node_nvlink, {Accelerator::cuda, 103, 8}, 2 * kMiB),
            std::nullopt);
  EXPECT_EQ(uses_one_shot_all_reduce(trtllm, four, 4 * kMiB), true) << "PAS-23";
  EXPECT_EQ(uses_one_shot_all_reduce(trtllm, four, 4 * kMiB + 1), false) << "PAS-24";
  EXPECT_EQ(uses_one_shot_all_reduce(trtllm, {Accelerator::cuda, 0, 8}, 128 * kMiB), true)
      << "PAS-25";
}

}  // namespace
}  // namespace reprise::compile
