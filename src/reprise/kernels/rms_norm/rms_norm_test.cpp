#include "reprise/kernels/rms_norm/rms_norm.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/norms.h"

namespace reprise::kernels {
namespace {

class RmsNorm : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weight) {
    const Tensor out = make(x.shape());
    launch_rms_norm(stream_, kernels(), x, weight, 1e-6F, out);
    return out;
  }
  void expect_agrees(const Tensor& x) {
    const Tensor weight = random({x.size(-1)});
    const Tensor want = make_ref(x.shape());
    rms_norm_ref(x, weight, 1e-6F, want);
    expect_close(run(x, weight),
                 want,
                 1.01 * rounding_error(dtype()) + 5e-7,
                 1.01 * underflow_error(dtype()));
  }
};

TEST_P(RmsNorm, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 5, 31, 32, 33, 64}) {
    for (int64_t width : {1, 31, 32, 33, 63, 64, 65, 100, 127, 896, 5000}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      if (rows * width < 100000) expect_agrees(random({rows, width}));
    }
  }
}

TEST_P(RmsNorm, reads_strided_rows_and_heads) {
  expect_agrees(random_strided({5, 65}));
  for (int64_t head_dim : {16, 64, 80, 128}) expect_agrees(random_strided({9, 7, head_dim}));
}

TEST_P(RmsNorm, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({100, 100});
  const Tensor weight = random({100});
  const Tensor all = run(x, weight);
  for (int64_t rows : {1, 2, 33}) {
    const Tensor out = run(x.with_layout({rows, 100}, {100, 1}, 1700), weight);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, 17 + row);
  }
}

TEST_P(RmsNorm, gives_zeros_for_a_row_of_zeros) {
  const Tensor x = random({1, 33});
  for (int64_t i = 0; i < 33; ++i) set_element(x, 0.0, 0, i);
  const Tensor out = run(x, random({33}));
  for (int64_t i = 0; i < 33; ++i) EXPECT_EQ(element(out, 0, i), 0.0);
}

TEST_P(RmsNorm, keeps_a_nan_in_its_own_row) {
  const Tensor x = random({3, 40});
  const Tensor weight = random({40});
  const Tensor clean = run(x, weight);
  set_element(x, NAN, 1, 7);
  const Tensor out = run(x, weight);
  expect_same_row(out, 0, clean, 0);
  expect_same_row(out, 2, clean, 2);
  EXPECT_TRUE(std::isnan(element(out, 1, 39)));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, RmsNorm, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
