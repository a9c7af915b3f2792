#include "reprise/kernels/grouped_top_k/grouped_top_k.h"

#include <cmath>

#include "reprise/base/error.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/experts.h"

namespace reprise::kernels {
namespace {

class GroupedTopK : public KernelTest {
 protected:
  struct Routes {
    Tensor weights;
    Tensor experts;
  };
  Routes make_routes(int64_t rows, int64_t top_k) {
    return {make({rows, top_k}, DType::f32), make({rows, top_k}, DType::i32)};
  }
  Routes run(const GroupedRouting& routing, const Tensor& logits, const Tensor& bias) {
    const Routes routes = make_routes(logits.size(0), routing.top_k);
    launch_grouped_top_k(stream_, kernels(), routing, logits, bias, routes.weights, routes.experts);
    return routes;
  }
  void expect_agrees(const GroupedRouting& routing, const Tensor& logits, const Tensor& bias) {
    const Routes got = run(routing, logits, bias);
    const Routes want = make_routes(logits.size(0), routing.top_k);
    grouped_top_k_ref(routing, logits, bias, want.weights, want.experts);
    expect_same_bits(got.experts, want.experts);
    expect_close(got.weights, want.weights, 3e-6, 1e-9);
  }
  // Distinct values for each row, because the oracle in double has no ties where float has some.
  Tensor spread_logits(int64_t rows, int64_t experts) {
    const Tensor logits = make({rows, experts});
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < experts; ++i) {
        const int64_t rank = (i * 37 + row * 11) % experts;
        set_element(logits, 4.0 * static_cast<double>(rank) / static_cast<double>(experts), row, i);
      }
    }
    return logits;
  }
};

TEST_P(GroupedTopK, agrees_with_the_reference_for_groups_of_any_size) {
  struct Shape {
    int64_t experts, groups, top_groups, top_k;
  };
  for (const Shape& shape : {Shape{6, 1, 1, 3},
                             Shape{8, 4, 2, 3},
                             Shape{64, 1, 1, 6},
                             Shape{160, 8, 3, 6},
                             Shape{256, 8, 4, 8}}) {
    SCOPED_TRACE(testing::Message() << shape.experts << " experts, " << shape.groups << " groups");
    GroupedRouting routing = {.top_k = shape.top_k,
                              .groups = shape.groups,
                              .top_groups = shape.top_groups,
                              .scale = 2.5F};
    const Tensor logits = spread_logits(9, shape.experts);
    expect_agrees(routing, logits, {});
    expect_agrees(routing, logits, random({shape.experts}, DType::f32, 0.1));
    routing.is_sigmoid = true;
    expect_agrees(routing, logits, random({shape.experts}, DType::f32, 0.1));
    routing.divides = false;
    expect_agrees(routing, logits, random({shape.experts}, DType::f32, 0.1));
  }
}

TEST_P(GroupedTopK, chooses_by_the_bias_and_weighs_without_it) {
  const Tensor logits = make({1, 4});
  for (int64_t i = 0; i < 4; ++i) set_element(logits, static_cast<double>(i), 0, i);
  const Tensor bias = make({4}, DType::f32);
  const double values[] = {5, 0, 0, 0};
  for (int64_t i = 0; i < 4; ++i) set_element(bias, values[i], i);
  for (const bool is_sigmoid : {false, true}) {
    const Routes routes =
        run({.is_sigmoid = is_sigmoid, .top_k = 2, .groups = 1, .top_groups = 1, .scale = 1},
            logits,
            bias);
    EXPECT_EQ(int_element(routes.experts, 0, 0), 0) << "the bias puts the weakest expert first";
    EXPECT_EQ(int_element(routes.experts, 0, 1), 3);
    EXPECT_LT(element(routes.weights, 0, 0), element(routes.weights, 0, 1));
    EXPECT_NEAR(element(routes.weights, 0, 0) + element(routes.weights, 0, 1), 1.0, 1e-6);
  }
}

TEST_P(GroupedTopK, takes_no_expert_of_a_group_that_lost) {
  // Group 0 has the best expert, group 1 the best pair.
  const Tensor logits = make({1, 4});
  const double values[] = {3.0, -9.0, 2.0, 2.5};
  for (int64_t i = 0; i < 4; ++i) set_element(logits, values[i], 0, i);
  const Tensor bias = make({4}, DType::f32);
  for (int64_t i = 0; i < 4; ++i) set_element(bias, 0.0, i);
  GroupedRouting routing = {.top_k = 1, .groups = 2, .top_groups = 1, .scale = 1};
  EXPECT_EQ(int_element(run(routing, logits, {}).experts, 0, 0), 0);
  routing.is_sigmoid = true;
  EXPECT_EQ(int_element(run(routing, logits, bias).experts, 0, 0), 3);
}

TEST_P(GroupedTopK, chooses_different_and_valid_experts_among_nans) {
  const Tensor logits = make({1, 6});  // all NaN
  const Routes routes = run({.top_k = 3, .groups = 2, .top_groups = 1, .scale = 1}, logits, {});
  for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(int_element(routes.experts, 0, k), k);
}

TEST_P(GroupedTopK, gives_a_row_the_same_bits_in_every_batch) {
  const GroupedRouting routing = {
      .is_sigmoid = true, .top_k = 3, .groups = 4, .top_groups = 2, .scale = 1.5F};
  const Tensor logits = random({100, 60});
  const Tensor bias = random({60}, DType::f32, 0.1);
  const Routes all = run(routing, logits, bias);
  const Routes some = run(routing, logits.with_layout({9, 60}, {60, 1}, 17 * 60), bias);
  for (int64_t row = 0; row < 9; ++row) expect_same_row(some.weights, row, all.weights, 17 + row);
}

TEST_P(GroupedTopK, refuses_groups_that_have_too_few_experts) {
  const Tensor logits = random({1, 8});
  for (const GroupedRouting& routing : {GroupedRouting{.top_k = 5, .groups = 4, .top_groups = 2},
                                        GroupedRouting{.top_k = 1, .groups = 3, .top_groups = 1},
                                        GroupedRouting{.top_k = 1, .groups = 2, .top_groups = 3},
                                        GroupedRouting{.top_k = 1, .groups = 0, .top_groups = 0}}) {
    EXPECT_THROW((void)run(routing, logits, {}), InvalidArgument);
  }
  EXPECT_THROW((void)run({.is_sigmoid = true, .top_k = 1, .groups = 8, .top_groups = 1},
                         logits,
                         random({8}, DType::f32, 0.1)),
               InvalidArgument)
      << "two experts decide how much a group counts";
}

INSTANTIATE_TEST_SUITE_P(AllKernels, GroupedTopK, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
