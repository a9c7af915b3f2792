#include "reprise/kernels/silu_and_mul/silu_and_mul.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

class SiluAndMul : public KernelTest {
 protected:
  Tensor run(const Tensor& x) {
    const Tensor out = make({x.size(0), x.size(1) / 2});
    launch_silu_and_mul(stream_, kernels(), x, out);
    return out;
  }
  void expect_agrees(const Tensor& x) {
    const Tensor want = make_ref({x.size(0), x.size(1) / 2});
    silu_and_mul_ref(x, want);
    expect_close(
        run(x), want, 1.01 * rounding_error(dtype()) + 5e-7, 1.01 * underflow_error(dtype()));
  }
};

TEST_P(SiluAndMul, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 5, 31, 33}) {
    for (int64_t width : {1, 31, 32, 33, 63, 64, 65, 100, 127, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, 2 * width}));
    }
  }
}

TEST_P(SiluAndMul, cuts_wide_rows_and_reads_strided_ones) {
  expect_agrees(random({1, 2 * 4864}));
  expect_agrees(random_strided({3, 2 * 65}));
}

TEST_P(SiluAndMul, saturates_without_nan) {
  const Tensor x = make({1, 16});
  const double gates[] = {-60000, -1000, -104, -90, -80, 80, 1000, 60000};
  for (int64_t i = 0; i < 8; ++i) {
    set_element(x, gates[i], 0, i);
    set_element(x, 1.0, 0, 8 + i);
  }
  const Tensor out = run(x);
  for (int64_t i = 0; i < 8; ++i) {
    // rounded like x; tiny results of very negative gates may be zero
    const double want = gates[i] > 0 ? element(x, 0, i) : 0.0;
    EXPECT_NEAR(element(out, 0, i), want, 1e-30) << gates[i];
  }
  set_element(x, NAN, 0, 3);
  EXPECT_TRUE(std::isnan(element(run(x), 0, 3)));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, SiluAndMul, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
