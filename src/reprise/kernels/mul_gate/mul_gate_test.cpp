#include "reprise/kernels/mul_gate/mul_gate.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

class MulGate : public KernelTest {
 protected:
  void expect_agrees(const Tensor& x, const Tensor& gate) {
    for (const OpFunction function : {OpFunction::silu, OpFunction::sigmoid}) {
      const Tensor out = make(x.shape());
      launch_mul_gate(stream_, kernels(), function, x, gate, out);
      const Tensor want = make_ref(x.shape());
      mul_gate_ref(function, x, gate, want);
      expect_close(
          out, want, 1.01 * rounding_error(dtype()) + 1e-6, 1.01 * underflow_error(dtype()) + 1e-9);
    }
  }
};

TEST_P(MulGate, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t width : {1, 31, 32, 33, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, width}), random_strided({rows, width}));
    }
  }
  expect_agrees(random_strided({3, 4, 20}), random({3, 4, 20}, 4.0));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, MulGate, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
