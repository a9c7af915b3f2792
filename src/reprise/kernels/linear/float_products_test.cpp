// The kernels that multiply with a weight in panels of smaller floats (tensor/float_panels.h).
#include <array>
#include <cmath>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/float_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

constexpr std::array kFormats = {PanelFormat::f8e4m3_rows,
                                 PanelFormat::f8e4m3_g128,
                                 PanelFormat::f8e5m2_rows,
                                 PanelFormat::f8e5m2_g128,
                                 PanelFormat::f4_g64};

class FloatProducts : public KernelTest {
 protected:
  Tensor weight_of(PanelFormat format, int64_t columns, int64_t depth) {
    const Tensor weight = make(float_panels_type(format, columns, depth, dtype()));
    fill_float_panels(weight, random_);
    return weight;
  }
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor out = make({x.size(0), weight.size(0)});
    launch_linear(stream_, kernels(), x, weight, bias, out);
    return out;
  }
};

TEST_P(FloatProducts, agree_with_the_reference_of_the_dequantised_weight) {
  for (PanelFormat format : kFormats) {
    for (int64_t depth : {128, 384}) {
      const Tensor weight = weight_of(format, 96, depth);
      for (int64_t rows : {1, 2, 5, 6, 7, 13, 64, 65}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(format) << ": " << rows << " x " << depth);
        const Tensor x = rows % 2 == 0 ? random_strided({rows, depth}) : random({rows, depth});
        const Tensor bias = rows > 5 ? random({96}) : Tensor();
        const Tensor want = make_ref({rows, 96});
        linear_ref(x, weight, bias, want);
        expect_close(linear(x, weight, bias),
                     want,
                     1.01 * rounding_error(dtype()),
                     1e-5 * std::sqrt(static_cast<double>(depth)));
      }
    }
  }
}

TEST_P(FloatProducts, read_every_code_of_float8_as_its_number) {
  for (PanelFormat format : {PanelFormat::f8e4m3_rows, PanelFormat::f8e5m2_rows}) {
    const Tensor weight = weight_of(format, 256, 32);
    // A row of x with a single 1 reads the element at this index from all columns.
    for (int64_t rows : {1, 3}) {
      for (int64_t k : {0, 1, 2, 3, 30, 31}) {
        const Tensor x = make({rows, 32});
        for (int64_t i = 0; i < 32; ++i) {
          for (int64_t row = 0; row < rows; ++row) set_element(x, i == k ? 1.0 : 0.0, row, i);
        }
        const Tensor out = linear(x, weight);
        const Tensor want = make({1, 256});
        for (int64_t n = 0; n < 256; ++n) {
          set_element(want, element(weight, n, k), 0, n);
        }
        expect_close(out.with_layout({1, 256}, {256, 1}, 0), want, 1e-7, 1e-30);
      }
    }
  }
}

TEST_P(FloatProducts, take_a_depth_that_is_no_whole_stretch) {
  for (const auto& [format, depth] : {std::pair(PanelFormat::f8e4m3_rows, 32),
                                      std::pair(PanelFormat::f8e5m2_rows, 160),
                                      std::pair(PanelFormat::f4_g64, 64),
                                      std::pair(PanelFormat::f4_g64, 192)}) {
    const Tensor weight = weight_of(format, 32, depth);
    for (int64_t rows : {1, 3}) {
      const Tensor x = random({rows, depth});
      const Tensor want = make_ref({rows, 32});
      linear_ref(x, weight, {}, want);
      expect_close(linear(x, weight), want, 1.01 * rounding_error(dtype()), 2e-4);
    }
  }
}

TEST_P(FloatProducts, give_a_row_the_same_bits_in_every_batch) {
  for (PanelFormat format : kFormats) {
    const Tensor x = random({70, 256});
    const Tensor weight = weight_of(format, 96, 256);
    const Tensor all = linear(x, weight);
    for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 16, 17, 33, 64}) {
      const int64_t first = 70 - rows;
      const Tensor out = linear(x.with_layout({rows, 256}, {256, 1}, first * 256), weight);
      for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
    }
  }
}

// More rows and columns than a worker multiplies together.
TEST_P(FloatProducts, give_a_row_the_same_bits_in_batches_that_are_cut) {
  for (PanelFormat format : {PanelFormat::f8e4m3_rows, PanelFormat::f4_g64}) {
    const Tensor x = random({290, 640});
    const Tensor weight = weight_of(format, 288, 640);
    const Tensor all = linear(x, weight);
    for (int64_t row : {0, 31, 63, 64, 256, 289}) {
      const Tensor alone = linear(x.with_layout({1, 640}, {640, 1}, row * 640), weight);
      expect_same_row(alone, 0, all, row);
    }
  }
}

TEST_P(FloatProducts, keep_a_nan_in_its_own_row) {
  const Tensor x = random({13, 128});
  const Tensor weight = weight_of(PanelFormat::f8e4m3_g128, 32, 128);
  const Tensor clean = linear(x, weight);
  set_element(x, NAN, 4, 127);
  const Tensor out = linear(x, weight);
  for (int64_t row = 0; row < 13; ++row) {
    if (row != 4) expect_same_row(out, row, clean, row);
  }
  for (int64_t column = 0; column < 32; ++column) EXPECT_TRUE(std::isnan(element(out, 4, column)));
}

TEST_P(FloatProducts, give_fused_ops_the_bits_of_separate_ones) {
  for (int64_t rows : {1, 7, 66}) {
    for (int64_t columns : {16, 48, 80}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const Tensor x = random({rows, 128});
      const Tensor halves = weight_of(PanelFormat::f8e4m3_rows, 2 * columns, 128);
      const Tensor bias = random({2 * columns});
      const Tensor activated = make({rows, columns});
      launch_linear_silu_and_mul(stream_, kernels(), x, halves, bias, activated);
      const Tensor want = make({rows, columns});
      launch_silu_and_mul(stream_, kernels(), linear(x, halves, bias), want);
      expect_same_bits(activated, want);

      const Tensor residual = random({rows, 2 * columns});
      const Tensor sum = make({rows, 2 * columns});
      launch_linear_add(stream_, kernels(), x, halves, bias, residual, sum);
      const Tensor want_sum = make({rows, 2 * columns});
      launch_add(stream_, kernels(), residual, linear(x, halves, bias), want_sum);
      expect_same_bits(sum, want_sum);
    }
  }
}

TEST_P(FloatProducts, give_logits_of_the_wanted_rows) {
  const Tensor x = random({5, 128});
  const Tensor weight = weight_of(PanelFormat::f4_g64, 64, 128);
  const Tensor logits = make({5, 64}, DType::f32);
  launch_lm_head(stream_, kernels(), x, weight, ints({3}), logits);
  const Tensor want = make_ref({5, 64});
  lm_head_ref(x, weight, ints({5}), want);
  for (int64_t column = 0; column < 64; ++column) {
    for (int64_t row = 0; row < 3; ++row) {
      EXPECT_NEAR(element(logits, row, column), element(want, row, column), 2e-4);
    }
    EXPECT_TRUE(std::isnan(element(logits, 3, column)));
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         FloatProducts,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
