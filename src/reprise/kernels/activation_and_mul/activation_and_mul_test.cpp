#include "reprise/kernels/activation_and_mul/activation_and_mul.h"

#include <cmath>

#include "reprise/kernels/elementwise/elementwise.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

class ActivationAndMul : public KernelTest {
 protected:
  void expect_agrees(const Tensor& x) {
    const int64_t width = x.size(1) / 2;
    for (const OpFunction function : {OpFunction::gelu, OpFunction::gelu_tanh}) {
      const bool uses_tanh = function == OpFunction::gelu_tanh;
      SCOPED_TRACE(uses_tanh ? "gelu_tanh" : "gelu");
      const Tensor out = make({x.size(0), width});
      const Tensor want = make_ref({x.size(0), width});
      launch_activation_and_mul(stream_, kernels(), function, x, out);
      for (int64_t row = 0; row < x.size(0); ++row) {
        for (int64_t i = 0; i < width; ++i) {
          const double gate = element(x, row, i);
          const double up = element(x, row, width + i);
          set_element(want, (uses_tanh ? gelu_tanh_ref(gate) : gelu_ref(gate)) * up, row, i);
        }
      }
      expect_close(out, want, 1.01 * rounding_error(dtype()) + 1e-6, 3e-6);
    }
  }
};

TEST_P(ActivationAndMul, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 5, 33}) {
    for (int64_t width : {1, 31, 32, 33, 65, 100, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, 2 * width}));
    }
  }
}

TEST_P(ActivationAndMul, cuts_wide_rows_and_reads_strided_ones) {
  expect_agrees(random({1, 2 * 4864}));
  expect_agrees(random_strided({3, 2 * 65}));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         ActivationAndMul,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
