#include "reprise/kernels/sigmoid_gate/sigmoid_gate.h"

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/activations.h"

namespace reprise::kernels {
namespace {

class SigmoidGate : public KernelTest {
 protected:
  void expect_agrees(const Tensor& x, const Tensor& gate) {
    const Tensor out = make(x.shape());
    launch_sigmoid_gate(stream_, kernels(), x, gate, out);
    const Tensor want = make_ref(x.shape());
    sigmoid_gate_ref(x, gate, want);
    expect_close(
        out, want, 1.01 * rounding_error(dtype()) + 1e-6, 1.01 * underflow_error(dtype()) + 1e-9);
  }
};

TEST_P(SigmoidGate, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 33}) {
    for (int64_t width : {1, 31, 32, 33, 100, 896, 9728}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, width}), random({rows, 1}, 4.0));
    }
  }
  expect_agrees(random_strided({5, 65}), random_strided({5, 1}));
  expect_agrees(random({3, 7, 40}), random({3, 7, 1}, 4.0));
  expect_agrees(random_strided({3, 5, 40}), random_strided({3, 5, 1}));
}

TEST_P(SigmoidGate, saturates_without_nan) {
  const Tensor gate = make({2, 1});
  set_element(gate, 1000.0, 0, 0);
  set_element(gate, -1000.0, 1, 0);
  expect_agrees(random({2, 40}), gate);
}

INSTANTIATE_TEST_SUITE_P(AllKernels, SigmoidGate, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
