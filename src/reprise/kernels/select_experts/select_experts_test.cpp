#include "reprise/kernels/select_experts/select_experts.h"

#include <cmath>

#include "reprise/base/error.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/experts.h"

namespace reprise::kernels {
namespace {

class SelectExperts : public KernelTest {
 protected:
  struct Routes {
    Tensor weights;
    Tensor experts;
  };
  Routes make_routes(int64_t rows, int64_t top_k) {
    return {make({rows, top_k}, DType::f32), make({rows, top_k}, DType::i32)};
  }
  Routes run(const ExpertChoice& choice, const Tensor& logits, const Tensor& bias = {}) {
    const Routes routes = make_routes(logits.size(0), choice.top_k);
    launch_select_experts(stream_, kernels(), choice, logits, bias, routes.weights, routes.experts);
    return routes;
  }
  void expect_agrees(const ExpertChoice& choice, const Tensor& logits, const Tensor& bias = {}) {
    SCOPED_TRACE(static_cast<int>(choice.function));
    const Routes got = run(choice, logits, bias);
    const Routes want = make_routes(logits.size(0), choice.top_k);
    select_experts_ref(choice, logits, bias, want.weights, want.experts);
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

TEST_P(SelectExperts, agrees_with_the_reference_for_any_number_of_experts) {
  for (int64_t num_experts : {1, 2, 7, 8, 15, 16, 17, 60, 64, 128, 1024}) {
    for (int64_t top_k : {1, 2, 4, 8}) {
      if (top_k > num_experts) continue;
      SCOPED_TRACE(testing::Message() << top_k << " of " << num_experts);
      for (const OpFunction function :
           {OpFunction::softmax_of_all, OpFunction::softmax_of_chosen, OpFunction::ones}) {
        expect_agrees({.function = function, .top_k = top_k}, random({33, num_experts}, 3.0));
        expect_agrees({.function = function, .top_k = top_k, .scale = 2.5F},
                      random_strided({3, num_experts}));
      }
    }
  }
}

TEST_P(SelectExperts, gives_equal_logits_to_the_lower_expert) {
  const Tensor logits = make({1, 6});
  const double values[] = {1, 3, 3, 2, 3, 2};
  for (int64_t i = 0; i < 6; ++i) set_element(logits, values[i], 0, i);
  const Routes routes = run({.function = OpFunction::softmax_of_chosen, .top_k = 4}, logits);
  const int64_t want[] = {1, 2, 4, 3};
  for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(int_element(routes.experts, 0, k), want[k]);
}

TEST_P(SelectExperts, chooses_different_and_valid_experts_among_nans) {
  const Tensor logits = make({1, 5});  // all NaN
  for (const ExpertChoice& choice :
       {ExpertChoice{.top_k = 3},
        ExpertChoice{.function = OpFunction::softmax, .top_k = 3, .groups = 1, .top_groups = 1}}) {
    const Routes routes = run(choice, logits);
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(int_element(routes.experts, 0, k), k);
      EXPECT_TRUE(std::isnan(element(routes.weights, 0, k)));
    }
  }
}

TEST_P(SelectExperts, agrees_with_the_reference_for_groups_of_any_size) {
  struct Shape {
    int64_t experts, groups, top_groups, top_k;
  };
  for (const Shape& shape : {Shape{6, 1, 1, 3},
                             Shape{8, 4, 2, 3},
                             Shape{64, 1, 1, 6},
                             Shape{160, 8, 3, 6},
                             Shape{256, 8, 4, 8}}) {
    SCOPED_TRACE(testing::Message() << shape.experts << " experts, " << shape.groups << " groups");
    const Tensor logits = spread_logits(9, shape.experts);
    for (const OpFunction function : {OpFunction::softmax,
                                      OpFunction::normalized_softmax,
                                      OpFunction::sigmoid,
                                      OpFunction::normalized_sigmoid}) {
      const ExpertChoice choice = {.function = function,
                                   .top_k = shape.top_k,
                                   .groups = shape.groups,
                                   .top_groups = shape.top_groups,
                                   .scale = 2.5F};
      expect_agrees(choice, logits);
      expect_agrees(choice, logits, random({shape.experts}, DType::f32, 0.1));
    }
  }
}

TEST_P(SelectExperts, chooses_by_the_bias_and_weighs_without_it) {
  const Tensor logits = make({1, 4});
  for (int64_t i = 0; i < 4; ++i) set_element(logits, static_cast<double>(i), 0, i);
  const Tensor bias = make({4}, DType::f32);
  const double values[] = {5, 0, 0, 0};
  for (int64_t i = 0; i < 4; ++i) set_element(bias, values[i], i);
  for (const OpFunction function :
       {OpFunction::normalized_softmax, OpFunction::normalized_sigmoid}) {
    const Routes routes =
        run({.function = function, .top_k = 2, .groups = 1, .top_groups = 1}, logits, bias);
    EXPECT_EQ(int_element(routes.experts, 0, 0), 0) << "the bias puts the weakest expert first";
    EXPECT_EQ(int_element(routes.experts, 0, 1), 3);
    EXPECT_LT(element(routes.weights, 0, 0), element(routes.weights, 0, 1));
    EXPECT_NEAR(element(routes.weights, 0, 0) + element(routes.weights, 0, 1), 1.0, 1e-6);
  }
}

TEST_P(SelectExperts, takes_no_expert_of_a_group_that_lost) {
  // Group 0 has the best expert, group 1 the best pair.
  const Tensor logits = make({1, 4});
  const double values[] = {3.0, -9.0, 2.0, 2.5};
  for (int64_t i = 0; i < 4; ++i) set_element(logits, values[i], 0, i);
  const Tensor bias = make({4}, DType::f32);
  for (int64_t i = 0; i < 4; ++i) set_element(bias, 0.0, i);
  ExpertChoice choice = {.function = OpFunction::softmax, .top_k = 1, .groups = 2, .top_groups = 1};
  EXPECT_EQ(int_element(run(choice, logits).experts, 0, 0), 0);
  choice.function = OpFunction::sigmoid;
  EXPECT_EQ(int_element(run(choice, logits, bias).experts, 0, 0), 3);
}

TEST_P(SelectExperts, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor logits = random({100, 60});
  const Tensor bias = random({60}, DType::f32, 0.1);
  const Tensor some = logits.with_layout({9, 60}, {60, 1}, 17 * 60);
  const auto expect_same = [&](const ExpertChoice& choice, const Tensor& of_choice) {
    const Routes all = run(choice, logits, of_choice);
    const Routes routes = run(choice, some, of_choice);
    for (int64_t row = 0; row < 9; ++row)
      expect_same_row(routes.weights, row, all.weights, 17 + row);
  };
  expect_same({.function = OpFunction::softmax_of_all, .top_k = 4}, {});
  expect_same({.function = OpFunction::normalized_sigmoid,
               .top_k = 3,
               .groups = 4,
               .top_groups = 2,
               .scale = 1.5F},
              bias);
}

TEST_P(SelectExperts, refuses_more_experts_than_there_are) {
  EXPECT_THROW((void)run({.top_k = 5}, random({1, 4})), InvalidArgument);
  EXPECT_THROW((void)run({.top_k = 5}, random({1, 1025})), InvalidArgument);
}

TEST_P(SelectExperts, refuses_groups_and_a_bias_where_logits_decide) {
  const Tensor logits = random({1, 8});
  EXPECT_THROW((void)run({.groups = 2, .top_groups = 1}, logits), InvalidArgument);
  EXPECT_THROW((void)run({.top_groups = 1}, logits), InvalidArgument);
  EXPECT_THROW((void)run({}, logits, random({8}, DType::f32, 0.1)), InvalidArgument);
}

TEST_P(SelectExperts, refuses_groups_that_have_too_few_experts) {
  const Tensor logits = random({1, 8});
  for (ExpertChoice choice : {ExpertChoice{.top_k = 5, .groups = 4, .top_groups = 2},
                              ExpertChoice{.top_k = 1, .groups = 3, .top_groups = 1},
                              ExpertChoice{.top_k = 1, .groups = 2, .top_groups = 3},
                              ExpertChoice{.top_k = 1, .groups = 0, .top_groups = 0}}) {
    choice.function = OpFunction::softmax;
    EXPECT_THROW((void)run(choice, logits), InvalidArgument);
  }
  EXPECT_THROW((void)run({.function = OpFunction::sigmoid, .groups = 8, .top_groups = 1}, logits),
               InvalidArgument)
      << "two experts decide how much a group counts";
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         SelectExperts,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
