#include "reprise/kernels/scale_experts/scale_experts.h"

#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

class ScaleExperts : public KernelTest {
 protected:
  Tensor run(const Tensor& weights, const Tensor& experts, const Tensor& scales) {
    const Tensor out = make(weights.shape(), DType::f32);
    launch_scale_experts(stream_, kernels(), weights, experts, scales, out);
    return out;
  }
  Tensor draw_experts(int64_t rows, int64_t top_k, int num_experts) {
    std::vector<int> chosen;
    for (int64_t i = 0; i < rows * top_k; ++i) {
      chosen.push_back(std::uniform_int_distribution<int>(-1, num_experts - 1)(random_));
    }
    return ints({rows, top_k}, chosen);
  }
};

TEST_P(ScaleExperts, multiplies_each_weight_by_the_factor_of_its_expert) {
  const Tensor scales = random({7});
  for (int64_t rows : {1, 2, 33, 3000}) {
    for (int64_t top_k : {1, 2, 8}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << top_k);
      const Tensor weights = random({rows, top_k}, DType::f32, 1.0);
      const Tensor experts = draw_experts(rows, top_k, 7);
      const Tensor out = run(weights, experts, scales);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t k = 0; k < top_k; ++k) {
          const int64_t expert = int_element(experts, row, k);
          const double scale = expert < 0 ? 0 : element(scales, expert);
          const auto want = static_cast<float>(element(weights, row, k) * scale);
          ASSERT_EQ(static_cast<float>(element(out, row, k)), want) << row << ", " << k;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         ScaleExperts,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
