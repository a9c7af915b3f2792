#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/select_experts/count_experts_arguments.h"
#include "tests/support/fake_cuda/cuda_ops_fixture.h"

// The kernel that counts the tokens of experts on CUDA.
namespace reprise::kernels::cuda {
namespace {

class CudaExpertCounts : public CudaOps {
 protected:
  void count(const Tensor& experts, int32_t num_tokens, const Tensor& counts) {
    const Tensor tokens = ints({1}, {num_tokens});
    const CountExpertsArguments arguments = {.experts = experts.data_as<int32_t>(),
                                             .num_tokens = tokens.data_as<int32_t>(),
                                             .counts = counts.data_as<int32_t>(),
                                             .num_rows = experts.size(0),
                                             .top_k = experts.size(1),
                                             .num_experts = counts.size(0)};
    stream_->launch({.kernel = &expert_counter(),
                     .num_blocks = 1,
                     .args = std::as_bytes(std::span(&arguments, 1)),
                     .uses = {}});
    stream_->synchronize();
  }
};

TEST_P(CudaExpertCounts, adds_the_tokens_of_each_expert_without_padding) {
  constexpr int64_t kRows = 300;  // more entries than a block has threads
  constexpr int64_t kTopK = 3;
  constexpr int32_t kExperts = 7;
  std::uniform_int_distribution<int32_t> any(-1, kExperts);  // -1 and 7 are no experts
  std::vector<int32_t> chosen(kRows * kTopK);
  for (int32_t& expert : chosen) expert = any(random_);
  const Tensor experts = ints({kRows, kTopK}, chosen);
  std::vector<int32_t> want(kExperts, 10);
  const Tensor counts = ints({kExperts}, want);
  for (const int32_t num_tokens : {0, 1, 100, 299, 300, 400}) {
    SCOPED_TRACE(num_tokens);
    count(experts, num_tokens, counts);
    const auto end = static_cast<size_t>(std::min<int64_t>(num_tokens, kRows) * kTopK);
    for (size_t i = 0; i < end; ++i) {
      if (chosen[i] >= 0 && chosen[i] < kExperts) ++want[static_cast<size_t>(chosen[i])];
    }
    EXPECT_EQ(std::vector<int32_t>(counts.data_as<int32_t>(), counts.data_as<int32_t>() + kExperts),
              want);
  }
}

INSTANTIATE_TEST_SUITE_P(Any, CudaExpertCounts, testing::Values(DType::i32));

}  // namespace
}  // namespace reprise::kernels::cuda
