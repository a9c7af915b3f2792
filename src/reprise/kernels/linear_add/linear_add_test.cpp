#include "reprise/kernels/linear_add/linear_add.h"

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/linear/linear.h"
#include "tests/support/kernels/kernel_test_fixture.h"

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

}  // namespace
}  // namespace reprise::kernels
