#include "reprise/kernels/top_k_softmax/top_k_softmax.h"

#include <cmath>

#include "reprise/base/error.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/experts.h"

namespace reprise::kernels {
namespace {

class TopKSoftmax : public KernelTest {
 protected:
  struct Routes {
    Tensor weights;
    Tensor experts;
  };
  Routes make_routes(int64_t rows, int64_t top_k) {
    return {make({rows, top_k}, DType::f32), make({rows, top_k}, DType::i32)};
  }
  Routes run(RoutingSoftmax softmax, const Tensor& logits, int64_t top_k) {
    const Routes routes = make_routes(logits.size(0), top_k);
    launch_top_k_softmax(stream_, kernels(), softmax, logits, routes.weights, routes.experts);
    return routes;
  }
  void expect_agrees(const Tensor& logits, int64_t top_k) {
    for (const RoutingSoftmax softmax : {RoutingSoftmax::over_all_experts,
                                         RoutingSoftmax::over_chosen_experts,
                                         RoutingSoftmax::none}) {
      const Routes got = run(softmax, logits, top_k);
      const Routes want = make_routes(logits.size(0), top_k);
      top_k_softmax_ref(softmax, logits, want.weights, want.experts);
      expect_same_bits(got.experts, want.experts);
      expect_close(got.weights, want.weights, 2e-6, 1e-9);
    }
  }
};

TEST_P(TopKSoftmax, agrees_with_the_reference_for_any_number_of_experts) {
  for (int64_t num_experts : {1, 2, 7, 8, 15, 16, 17, 60, 64, 128, 1024}) {
    for (int64_t top_k : {1, 2, 4, 8}) {
      if (top_k > num_experts) continue;
      SCOPED_TRACE(testing::Message() << top_k << " of " << num_experts);
      expect_agrees(random({33, num_experts}, 3.0), top_k);
      expect_agrees(random_strided({3, num_experts}), top_k);
    }
  }
}

TEST_P(TopKSoftmax, gives_equal_logits_to_the_lower_expert) {
  const Tensor logits = make({1, 6});
  const double values[] = {1, 3, 3, 2, 3, 2};
  for (int64_t i = 0; i < 6; ++i) set_element(logits, values[i], 0, i);
  const Routes routes = run(RoutingSoftmax::over_chosen_experts, logits, 4);
  const int64_t want[] = {1, 2, 4, 3};
  for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(int_element(routes.experts, 0, k), want[k]);
}

TEST_P(TopKSoftmax, chooses_different_and_valid_experts_among_nans) {
  const Tensor logits = make({1, 5});  // all NaN
  const Routes routes = run(RoutingSoftmax::over_all_experts, logits, 3);
  for (int64_t k = 0; k < 3; ++k) {
    EXPECT_EQ(int_element(routes.experts, 0, k), k);
    EXPECT_TRUE(std::isnan(element(routes.weights, 0, k)));
  }
}

TEST_P(TopKSoftmax, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor logits = random({100, 60});
  const Routes all = run(RoutingSoftmax::over_all_experts, logits, 4);
  const Tensor some = logits.with_layout({9, 60}, {60, 1}, 17 * 60);
  const Routes routes = run(RoutingSoftmax::over_all_experts, some, 4);
  for (int64_t row = 0; row < 9; ++row) expect_same_row(routes.weights, row, all.weights, 17 + row);
}

TEST_P(TopKSoftmax, refuses_more_experts_than_there_are) {
  EXPECT_THROW((void)run(RoutingSoftmax::over_all_experts, random({1, 4}), 5), InvalidArgument);
  EXPECT_THROW((void)run(RoutingSoftmax::over_all_experts, random({1, 1025}), 5), InvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, TopKSoftmax, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
