#include "reprise/kernels/linear_silu_and_mul/linear_silu_and_mul.h"

#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

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

}  // namespace
}  // namespace reprise::kernels
