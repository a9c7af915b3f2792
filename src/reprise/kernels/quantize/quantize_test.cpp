#include "reprise/kernels/quantize/quantize.h"

#include <cmath>
#include <cstring>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/oracles/rows.h"

namespace reprise::kernels {
namespace {

constexpr float kQuantEpsilon = 1e-6F;

class Quantize : public KernelTest {
 protected:
  struct Results {
    Tensor q;
    Tensor scales;
  };
  Results make_results(int64_t rows, int64_t width, DType eight_bits) {
    return {make({rows, width}, eight_bits), make({rows}, DType::f32)};
  }
  Results run(const Tensor& x, DType eight_bits) {
    const Results results = make_results(x.size(0), x.size(1), eight_bits);
    launch_quantize_per_token(stream_, kernels(), x, results.q, results.scales);
    return results;
  }
  static void expect_same(const Results& got, const Results& want) {
    expect_same_bits(got.q, want.q);
    expect_same_bits(got.scales, want.scales);
  }
  void expect_equals_oracle(const Tensor& x) {
    for (DType eight_bits : kEightBits) {
      const Results want = make_results(x.size(0), x.size(1), eight_bits);
      quantize_per_token_ref(x, want.q, want.scales);
      expect_same(run(x, eight_bits), want);
    }
  }
  Tensor one_scale(double value) {
    const Tensor scale = make({1}, DType::f32);
    set_element(scale, value, 0);
    return scale;
  }
  void expect_static_equals_oracle(const Tensor& x, double scale_value) {
    const Tensor scale = one_scale(scale_value);
    for (DType eight_bits : kEightBits) {
      const Tensor q = make(x.shape(), eight_bits);
      const Tensor want = make(x.shape(), eight_bits);
      launch_quantize_static(stream_, kernels(), x, scale, q);
      quantize_static_ref(x, scale, want);
      expect_same_bits(q, want);
    }
  }

  static constexpr DType kEightBits[] = {DType::i8, DType::f8e4m3};
};

TEST_P(Quantize, has_the_bits_of_the_oracle_at_edges_of_rows_and_width) {
  for (int64_t rows : {1, 3, 33}) {
    for (int64_t width : {1, 7, 16, 31, 33, 64, 100, 255, 257, 896}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << width);
      expect_equals_oracle(random({rows, width}));
    }
  }
  expect_equals_oracle(random({2, 5000}));
  expect_equals_oracle(random_strided({5, 65}));
}

TEST_P(Quantize, by_a_given_scale_has_the_bits_of_the_oracle) {
  for (double scale : {0.01, 0.003, 1.0, 1e-20, 0.0}) {
    expect_static_equals_oracle(random({3, 100}), scale);
  }
  expect_static_equals_oracle(random({1, 5000}), 0.01);
  expect_static_equals_oracle(random_strided({5, 65}), 0.02);
  expect_static_equals_oracle(random_strided({4, 3, 33}), 0.02);
}

TEST_P(Quantize, keeps_every_scale_above_zero) {
  const Tensor x = make({2, 40});
  for (int64_t i = 0; i < 40; ++i) {
    set_element(x, 0.0, 0, i);
    set_element(x, dtype() == DType::f16 ? 0x1p-24 : 1e-20, 1, i);
  }
  const Results int8 = run(x, DType::i8);
  EXPECT_EQ(element(int8.scales, 0), static_cast<float>(1e-10F / 127.0F));
  const Results float8 = run(x, DType::f8e4m3);
  EXPECT_EQ(element(float8.scales, 0), static_cast<float>(1e-10F / 448.0F));
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(element(int8.q, 0, i), 0.0);
    EXPECT_EQ(element(float8.q, 0, i), 0.0);
  }
  EXPECT_GT(element(int8.scales, 1), 0.0);
  expect_equals_oracle(x);
}

TEST_P(Quantize, shows_nans_and_infinities_in_the_scale_of_their_row) {
  const Tensor x = random({4, 300});
  const Results clean = run(x, DType::f8e4m3);
  set_element(x, NAN, 1, 280);
  set_element(x, -INFINITY, 2, 3);
  set_element(x, NAN, 2, 5);
  set_element(x, -INFINITY, 3, 270);
  for (DType eight_bits : kEightBits) {
    const Results got = run(x, eight_bits);
    EXPECT_TRUE(std::isnan(element(got.scales, 1)));
    EXPECT_TRUE(std::isnan(element(got.scales, 2)));
    EXPECT_EQ(element(got.scales, 3), INFINITY);
    for (int64_t i = 0; i < 300; ++i) {
      // The product of a quantised number and its scale must not be finite.
      EXPECT_FALSE(std::isfinite(element(got.q, 1, i) * element(got.scales, 1)));
      EXPECT_FALSE(std::isfinite(element(got.q, 3, i) * element(got.scales, 3)));
    }
  }
  expect_same_row(run(x, DType::f8e4m3).q, 0, clean.q, 0);
}

TEST_P(Quantize, of_every_pattern_of_bits_equals_the_oracle) {
  const Tensor x = make({256, 256});
  for (size_t i = 0; i < x.type().bytes(); i += 2) {
    const auto bits = static_cast<uint16_t>(dtype() == DType::f32 ? random_() : i / 2);
    std::memcpy(x.data_as<std::byte>() + i, &bits, 2);
  }
  const Tensor scale = one_scale(0.37);
  for (DType eight_bits : kEightBits) {
    const Tensor q = make(x.shape(), eight_bits);
    const Tensor want = make(x.shape(), eight_bits);
    launch_quantize_static(stream_, kernels(), x, scale, q);
    quantize_static_ref(x, scale, want);
    expect_close(q, want, 0.0, 0.0);  // except for the sign of NaNs
  }
}

TEST_P(Quantize, of_a_norm_has_the_bits_of_two_kernels) {
  for (DType eight_bits : kEightBits) {
    for (int64_t width : {1, 33, 256, 300, 896}) {
      SCOPED_TRACE(width);
      const Tensor x = random_strided({7, width});
      const Tensor weight = random({width});
      const Results fused = make_results(7, width, eight_bits);
      launch_rms_norm_quant(stream_, kernels(), x, weight, kQuantEpsilon, fused.q, fused.scales);
      const Tensor normed = make(x.shape());
      launch_rms_norm(stream_, kernels(), x, weight, kQuantEpsilon, normed);
      expect_same(fused, run(normed, eight_bits));
    }
  }
}

TEST_P(Quantize, of_the_norm_of_a_sum_has_the_bits_of_three_kernels) {
  for (DType eight_bits : kEightBits) {
    for (int64_t width : {1, 33, 256, 300, 896}) {
      SCOPED_TRACE(width);
      const Tensor x = random_strided({7, width});
      const Tensor residual = random_strided({7, width});
      const Tensor weight = random({width});
      const Results fused = make_results(7, width, eight_bits);
      const Tensor sum = make(x.shape());
      launch_fused_add_rms_norm_quant(stream_,
                                      kernels(),
                                      {.x = x,
                                       .residual = residual,
                                       .weight = weight,
                                       .epsilon = kQuantEpsilon,
                                       .q = fused.q,
                                       .scales = fused.scales,
                                       .sum = sum});
      const Tensor sum_apart = make(x.shape());
      const Tensor normed = make(x.shape());
      launch_add(stream_, kernels(), residual, x, sum_apart);
      launch_rms_norm(stream_, kernels(), sum_apart, weight, kQuantEpsilon, normed);
      expect_same_bits(sum, sum_apart);
      expect_same(fused, run(normed, eight_bits));
    }
  }
}

TEST_P(Quantize, of_silu_and_mul_has_the_bits_of_two_kernels) {
  for (DType eight_bits : kEightBits) {
    for (int64_t width : {1, 33, 256, 300, 896}) {
      SCOPED_TRACE(width);
      const Tensor x = random_strided({7, 2 * width});
      const Results fused = make_results(7, width, eight_bits);
      launch_silu_and_mul_quant(stream_, kernels(), x, fused.q, fused.scales);
      const Tensor gated = make({7, width});
      launch_silu_and_mul(stream_, kernels(), x, gated);
      expect_same(fused, run(gated, eight_bits));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels, Quantize, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
