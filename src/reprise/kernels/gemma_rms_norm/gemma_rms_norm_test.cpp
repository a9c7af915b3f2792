#include "reprise/kernels/gemma_rms_norm/gemma_rms_norm.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/norms.h"

namespace reprise::kernels {
namespace {

class GemmaRmsNorm : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weight) {
    const Tensor out = make(x.shape());
    launch_gemma_rms_norm(stream_, kernels(), x, weight, 1e-6F, out);
    return out;
  }
  void expect_agrees(const Tensor& x, double deviation = 1.0) {
    const Tensor weight = random({x.size(-1)}, deviation);
    const Tensor want = make_ref(x.shape());
    gemma_rms_norm_ref(x, weight, 1e-6F, want);
    // A weight near -1 cancels the 1. The sum is exact up to the rounding of float32.
    expect_close(run(x, weight), want, 1.01 * rounding_error(dtype()) + 5e-7, 3e-7);
  }
};

TEST_P(GemmaRmsNorm, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 31, 33}) {
    for (int64_t width : {1, 31, 32, 33, 64, 65, 100, 127, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_agrees(random({rows, width}));
    }
  }
}

TEST_P(GemmaRmsNorm, reads_strided_rows_and_heads) {
  expect_agrees(random_strided({5, 65}));
  for (int64_t head_dim : {16, 80, 128}) expect_agrees(random_strided({9, 7, head_dim}));
}

TEST_P(GemmaRmsNorm, keeps_small_weights_that_a_rounded_sum_with_one_would_lose) {
  expect_agrees(random({4, 64}), 1e-3);
}

TEST_P(GemmaRmsNorm, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({100, 100});
  const Tensor weight = random({100});
  const Tensor all = run(x, weight);
  for (int64_t rows : {1, 2, 33}) {
    const Tensor out = run(x.with_layout({rows, 100}, {100, 1}, 1700), weight);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, 17 + row);
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         GemmaRmsNorm,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
