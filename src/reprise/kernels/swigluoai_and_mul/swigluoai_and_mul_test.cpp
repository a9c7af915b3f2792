#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

class SwigluoaiAndMul : public KernelTest {
 protected:
  void expect_agrees(const Tensor& x, float limit) {
    const Shape shape = {x.size(0), x.size(1) / 2};
    const Tensor out = make(shape);
    launch_swigluoai_and_mul(stream_, kernels(), x, limit, out);
    const Tensor want = make_ref(shape);
    swigluoai_and_mul_ref(x, limit, want);
    expect_close(out, want, 1.01 * rounding_error(dtype()) + 2e-6, 3e-6);
  }
};

TEST_P(SwigluoaiAndMul, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t width : {1, 31, 32, 33, 100, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, 2 * width}, 4.0), 7.0F);
    }
  }
}

TEST_P(SwigluoaiAndMul, limits_its_inputs) {
  const Tensor x = random({5, 80}, 4.0);
  expect_agrees(x, 0.5F);
  expect_agrees(x, 1000.0F);
}

TEST_P(SwigluoaiAndMul, cuts_wide_rows_and_reads_strided_ones) {
  expect_agrees(random({1, 2 * 4864}), 7.0F);
  expect_agrees(random_strided({3, 2 * 65}), 7.0F);
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         SwigluoaiAndMul,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
