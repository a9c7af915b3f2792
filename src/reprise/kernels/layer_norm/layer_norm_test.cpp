#include "reprise/kernels/layer_norm/layer_norm.h"

#include <cmath>

#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/norms.h"

namespace reprise::kernels {
namespace {

class LayerNorm : public KernelTest {
 protected:
  Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor out = make(x.shape());
    launch_layer_norm(stream_, kernels(), x, weight, bias, 1e-5F, out);
    return out;
  }
  void expect_agrees(const Tensor& x) {
    const Tensor weight = random({x.size(-1)});
    for (const Tensor& bias : {Tensor{}, random({x.size(-1)})}) {
      const Tensor want = make_ref(x.shape());
      layer_norm_ref(x, weight, bias, 1e-5F, want);
      expect_close(run(x, weight, bias), want, 1.01 * rounding_error(dtype()) + 1e-6, 3e-6);
    }
  }
};

TEST_P(LayerNorm, agrees_with_the_reference_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 2, 3, 31, 33}) {
    for (int64_t width : {1, 2, 31, 32, 33, 64, 65, 100, 127, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      const Tensor x = random({rows, width});
      // The variance of two numbers that are nearly equal cannot be exact in float32.
      for (int64_t r = 0; r < rows && width == 2; ++r) set_element(x, element(x, r, 0) + 1, r, 1);
      expect_agrees(x);
    }
  }
}

TEST_P(LayerNorm, reads_strided_rows_and_heads) {
  expect_agrees(random_strided({5, 65}));
  for (int64_t head_dim : {16, 80, 128}) expect_agrees(random_strided({9, 7, head_dim}));
}

TEST_P(LayerNorm, keeps_the_variance_of_a_row_far_from_zero) {
  const Tensor x = random({2, 77});
  for (int64_t i = 0; i < 77; ++i) set_element(x, 100.0 + (i % 3), 1, i);
  const Tensor weight = random({77});
  const Tensor want = make_ref(x.shape());
  layer_norm_ref(x, weight, {}, 1e-5F, want);
  expect_close(run(x, weight, {}), want, 1.01 * rounding_error(dtype()) + 1e-5, 3e-5);
}

TEST_P(LayerNorm, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({100, 100});
  const Tensor weight = random({100});
  const Tensor bias = random({100});
  const Tensor all = run(x, weight, bias);
  for (int64_t rows : {1, 2, 33}) {
    const Tensor out = run(x.with_layout({rows, 100}, {100, 1}, 1700), weight, bias);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, 17 + row);
  }
}

TEST_P(LayerNorm, gives_the_bias_for_a_row_of_equal_elements) {
  const Tensor x = random({1, 33});
  for (int64_t i = 0; i < 33; ++i) set_element(x, 2.0, 0, i);
  const Tensor bias = random({33});
  const Tensor out = run(x, random({33}), bias);
  for (int64_t i = 0; i < 33; ++i) EXPECT_EQ(element(out, 0, i), element(bias, i));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, LayerNorm, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
