#include "reprise/kernels/local_experts/local_experts.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/experts.h"

namespace reprise::kernels {
namespace {

class LocalExpertsOfRank : public KernelTest {
 protected:
  struct Routes {
    Tensor weights;
    Tensor experts;
  };
  Routes empty_routes(const Tensor& experts) {
    return {make(experts.shape(), DType::f32), make(experts.shape(), DType::i32)};
  }
};

TEST_P(LocalExpertsOfRank, numbers_its_own_from_0_and_drops_the_others) {
  for (int64_t num_tokens : {1, 2, 33, 3000}) {
    std::vector<int> chosen;
    for (int64_t i = 0; i < num_tokens * 2; ++i) {
      chosen.push_back(std::uniform_int_distribution<int>(0, 6)(random_));
    }
    const Tensor experts = ints({num_tokens, 2}, chosen);
    const Tensor weights = random({num_tokens, 2}, DType::f32, 1.0);
    for (const LocalExperts mine : {LocalExperts{0, 7}, {0, 3}, {3, 2}, {5, 2}}) {
      SCOPED_TRACE(testing::Message() << num_tokens << " tokens, from " << mine.begin);
      const Routes got = empty_routes(experts);
      const Routes want = empty_routes(experts);
      launch_local_experts(stream_, mine, weights, experts, got.weights, got.experts);
      local_experts_ref(mine, weights, experts, want.weights, want.experts);
      for (int64_t token = 0; token < num_tokens; ++token) {
        for (int64_t k = 0; k < 2; ++k) {
          ASSERT_EQ(int_element(got.experts, token, k), int_element(want.experts, token, k));
          ASSERT_EQ(element(got.weights, token, k), element(want.weights, token, k));
        }
      }
    }
  }
}

// Ids and weights have the same types for every model type.
INSTANTIATE_TEST_SUITE_P(AllKernels, LocalExpertsOfRank, testing::Values(KernelCase{}), case_name);

}  // namespace
}  // namespace reprise::kernels
