// Tests of products that process their sums further.
#include <cmath>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class LinearAdd : public KernelTest {
 protected:
  Tensor run_apart(const Tensor& x,
                   const Tensor& weight,
                   const Tensor& bias,
                   const Tensor& residual) {
    const Tensor product = make(residual.shape());
    const Tensor sum = make(residual.shape());
    launch_linear(stream_, kernels(), x, weight, bias, product);
    launch_add(stream_, kernels(), residual, product, sum);
    return sum;
  }
  void expect_equals_two_kernels(const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const Tensor& residual) {
    const Tensor out = make(residual.shape());
    launch_linear_add(stream_, kernels(), x, weight, bias, residual, out);
    expect_same_bits(out, run_apart(x, weight, bias, residual));
  }
};

TEST_P(LinearAdd, has_the_bits_of_two_kernels_at_edges_of_rows_columns_and_depth) {
  for (int64_t rows : {1, 2, 3, 5, 17, 65}) {
    for (int64_t columns : {1, 16, 33}) {
      for (int64_t depth : {1, 33}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
        expect_equals_two_kernels(
            random({rows, depth}), random({columns, depth}), {}, random({rows, columns}));
      }
    }
  }
}

TEST_P(LinearAdd, adds_the_bias_before_the_residual) {
  for (int64_t rows : {1, 5, 33}) {
    expect_equals_two_kernels(
        random({rows, 40}), random({37, 40}), random({37}), random({rows, 37}));
  }
}

TEST_P(LinearAdd, reads_strided_rows_of_both) {
  expect_equals_two_kernels(random_strided({5, 65}), random({37, 65}), {}, random_strided({5, 37}));
}

TEST_P(LinearAdd, writes_over_its_residual) {
  const Tensor x = random({65, 40});
  const Tensor weight = random({37, 40});
  const Tensor residual = random({65, 37});
  const Tensor apart = run_apart(x, weight, {}, residual);
  launch_linear_add(stream_, kernels(), x, weight, {}, residual, residual);
  expect_same_bits(residual, apart);
}

TEST_P(LinearAdd, launches_nothing_for_no_rows) {
  EXPECT_FALSE(launch_linear_add(
      stream_, kernels(), make({0, 8}), random({4, 8}), {}, make({0, 4}), make({0, 4})));
  EXPECT_EQ(stream_.num_launches(), 0U);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LinearAdd, testing::ValuesIn(all_kernel_cases()), case_name);

class LinearSiluAndMul : public KernelTest {
 protected:
  void expect_equals_two_kernels(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor out = make({x.size(0), weight.size(0) / 2});
    launch_linear_silu_and_mul(stream_, kernels(), x, weight, bias, out);
    const Tensor product = make({x.size(0), weight.size(0)});
    const Tensor apart = make(out.shape());
    launch_linear(stream_, kernels(), x, weight, bias, product);
    launch_silu_and_mul(stream_, kernels(), product, apart);
    expect_same_bits(out, apart);
  }
};

TEST_P(LinearSiluAndMul, has_the_bits_of_two_kernels_at_edges_of_rows_columns_and_depth) {
  for (int64_t rows : {1, 2, 3, 5, 17, 65}) {
    for (int64_t columns : {1, 8, 33}) {
      for (int64_t depth : {1, 33}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
        expect_equals_two_kernels(random({rows, depth}), random({2 * columns, depth}), {});
      }
    }
  }
}

TEST_P(LinearSiluAndMul, adds_the_bias_of_both_halves) {
  for (int64_t rows : {1, 5, 33}) {
    expect_equals_two_kernels(random({rows, 40}), random({74, 40}), random({74}));
  }
}

TEST_P(LinearSiluAndMul, reads_strided_rows) {
  expect_equals_two_kernels(random_strided({5, 65}), random({74, 65}), {});
}

TEST_P(LinearSiluAndMul, has_the_bits_of_two_kernels_for_gates_that_saturate) {
  expect_equals_two_kernels(
      random({3, 33}, dtype(), 20.0), random({40, 33}, dtype(), 20.0), random({40}));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         LinearSiluAndMul,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

class LmHead : public KernelTest {};

TEST_P(LmHead, agrees_with_the_reference_in_float32) {
  for (int64_t rows : {1, 2, 3, 5, 65}) {
    for (int64_t hidden : {1, 33, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << hidden << " wide");
      const Tensor x = random_strided({rows, hidden});
      const Tensor weight = random({37, hidden});
      const Tensor num_rows = ints({static_cast<int>(rows)});
      const Tensor out = make_ref({rows, 37});
      const Tensor want = make_ref({rows, 37});
      launch_lm_head(stream_, kernels(), x, weight, num_rows, out);
      lm_head_ref(x, weight, num_rows, want);
      expect_close(out, want, 1e-6, 2e-6 * std::sqrt(static_cast<double>(hidden)));
    }
  }
}

TEST_P(LmHead, reads_the_number_of_rows_when_it_runs_and_leaves_the_others_alone) {
  const Tensor x = random({70, 40});
  const Tensor weight = random({19, 40});
  const Tensor all = make_ref({70, 19});
  launch_lm_head(stream_, kernels(), x, weight, ints({70}), all);
  for (int count : {0, 1, 3, 4, 5, 63, 64, 65, 70, 71, -1}) {
    const Tensor out = make_ref({70, 19});  // NaNs
    launch_lm_head(stream_, kernels(), x, weight, ints({count}), out);
    for (int64_t row = 0; row < 70; ++row) {
      if (row < count) {
        expect_same_row(out, row, all, row);
      } else {
        EXPECT_TRUE(std::isnan(element(out, row, 18))) << count << " rows touch row " << row;
      }
    }
  }
}

TEST_P(LmHead, sums_as_linear_does) {
  const Tensor x = random({3, 100}, DType::f32, 1.0);
  const Tensor weight = random({21, 100}, DType::f32, 1.0);
  const Tensor logits = make_ref({3, 21});
  const Tensor product = make_ref({3, 21});
  launch_lm_head(stream_, kernels(), x, weight, ints({3}), logits);
  launch_linear(stream_, kernels(), x, weight, {}, product);
  expect_same_bits(logits, product);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LmHead, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
