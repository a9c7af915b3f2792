#include "reprise/kernels/linear/linear.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class ExpertLinear : public KernelTest {
 protected:
  // Chooses different experts for each token at random.
  Tensor choose(int64_t num_tokens, int64_t top_k, int num_experts) {
    std::vector<int> chosen;
    for (int64_t token = 0; token < num_tokens; ++token) {
      const int first = std::uniform_int_distribution<int>(0, num_experts - 1)(random_);
      for (int k = 0; k < static_cast<int>(top_k); ++k) chosen.push_back((first + k) % num_experts);
    }
    return ints({num_tokens, top_k}, chosen);
  }
  Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& experts) {
    const Tensor out = make({experts.size(0) * experts.size(1), weight.size(1)});
    launch_expert_linear(stream_, kernels(), x, weight, bias, experts, out);
    return out;
  }
  void expect_agrees(const Tensor& x,
                     const Tensor& weight,
                     const Tensor& bias,
                     const Tensor& experts) {
    const Tensor want = make_ref({experts.size(0) * experts.size(1), weight.size(1)});
    expert_linear_ref(x, weight, bias, experts, want);
    const double depth = static_cast<double>(x.size(1));
    expect_close(run(x, weight, bias, experts),
                 want,
                 1.01 * rounding_error(dtype()),
                 2e-6 * std::sqrt(depth) + 1.01 * underflow_error(dtype()));
  }
};

TEST_P(ExpertLinear, agrees_with_the_reference_for_rows_of_tokens_and_of_their_experts) {
  for (int64_t num_tokens : {1, 2, 33, 70}) {
    for (int64_t columns : {1, 31, 32, 33, 100}) {
      SCOPED_TRACE(testing::Message() << num_tokens << " tokens, " << columns << " columns");
      const Tensor experts = choose(num_tokens, 2, 5);
      const Tensor weight = random({5, columns, 48});
      expect_agrees(random_strided({num_tokens, 48}), weight, {}, experts);
      expect_agrees(random({2 * num_tokens, 48}), weight, random({5, columns}), experts);
    }
  }
}

TEST_P(ExpertLinear, agrees_when_one_expert_has_all_rows_and_others_have_none) {
  const Tensor experts = ints({80, 1}, std::vector<int>(80, 3));
  expect_agrees(random({80, 33}), random({4, 40, 33}), {}, experts);
}

TEST_P(ExpertLinear, gives_zeros_to_rows_whose_expert_another_rank_has) {
  // There are several tiles of columns, and more rows with expert -1 than a block multiplies at
  // once.
  std::vector<int> chosen;
  for (int i = 0; i < 120; ++i) chosen.push_back(i % 3 - 1);
  const Tensor experts = ints({60, 2}, chosen);
  for (int64_t columns : {1, 33, 100}) {
    expect_agrees(random({60, 48}), random({2, columns, 48}), random({2, columns}), experts);
  }
  // A rank may get no row at all.
  expect_agrees(random({3, 48}), random({2, 40, 48}), {}, ints({3, 1}, {-1, -1, -1}));
}

TEST_P(ExpertLinear, gives_a_row_the_same_bits_whatever_other_tokens_choose) {
  const Tensor x = random({50, 100});
  const Tensor weight = random({6, 40, 100});
  const Tensor experts = choose(50, 3, 6);
  const Tensor all = run(x, weight, {}, experts);
  for (int64_t token : {0, 7, 49}) {
    const Tensor one = x.with_layout({1, 100}, {100, 1}, token * 100);
    const Tensor out = run(one, weight, {}, experts.with_layout({1, 3}, {3, 1}, token * 3));
    for (int64_t k = 0; k < 3; ++k) expect_same_row(out, k, all, token * 3 + k);
  }
}

TEST_P(ExpertLinear, launches_nothing_without_tokens) {
  const Tensor out = make({0, 8});
  EXPECT_FALSE(launch_expert_linear(
      stream_, kernels(), make({0, 4}), random({2, 8, 4}), {}, ints({0, 2}, {}), out));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         ExpertLinear,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

class HeadLinear : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weight) {
    const Tensor out = make({x.size(0), x.size(1), weight.size(1)});
    launch_head_linear(stream_, kernels(), x, weight, out);
    return out;
  }
  void expect_agrees(const Tensor& x, const Tensor& weight) {
    const Tensor want = make_ref({x.size(0), x.size(1), weight.size(1)});
    head_linear_ref(x, weight, want);
    expect_close(
        run(x, weight),
        want,
        1.01 * rounding_error(dtype()),
        2e-6 * std::sqrt(static_cast<double>(x.size(2))) + 1.01 * underflow_error(dtype()));
  }
};

TEST_P(HeadLinear, multiplies_each_head_with_its_own_matrix) {
  for (int64_t tokens : {1, 5, 65}) {
    for (int64_t columns : {1, 31, 32, 33, 64}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, " << columns << " columns");
      expect_agrees(random({tokens, 3, 48}), random({3, columns, 48}));
    }
  }
}

TEST_P(HeadLinear, reads_part_of_a_head) {
  expect_agrees(random_strided({7, 4, 33}), random({4, 40, 33}));
}

TEST_P(HeadLinear, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({70, 2, 40});
  const Tensor weight = random({2, 36, 40});
  const Tensor all = run(x, weight).with_layout({70, 72}, {72, 1}, 0);
  const Tensor some = run(x.with_layout({3, 2, 40}, {80, 40, 1}, 66 * 80), weight);
  for (int64_t row = 0; row < 3; ++row) {
    expect_same_row(some.with_layout({3, 72}, {72, 1}, 0), row, all, 66 + row);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, HeadLinear, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
