// The kernels that multiply with a weight in panels (tensor/column_panels.h).
#include <array>
#include <cmath>

#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class LinearPanels : public KernelTest {
 protected:
  void SetUp() override {
    if (dtype() != DType::bf16) GTEST_SKIP() << "panels hold bfloat16";
  }

  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor out = make({x.size(0), weight.size(0)});
    launch_linear(stream_, kernels(), x, weight, bias, out);
    return out;
  }

  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor want = make_ref({x.size(0), weight.size(0)});
    linear_ref(x, weight, bias, want);
    const double terms = std::sqrt(static_cast<double>(x.size(1)));
    expect_close(
        linear(x, in_panels(weight), bias), want, 1.01 * rounding_error(dtype()), 2e-6 * terms);
  }
};

TEST_P(LinearPanels, agree_with_the_reference_of_the_row_major_weight) {
  for (int64_t rows : {1, 2, 5, 6, 7, 13, 64, 65}) {
    for (int64_t columns : {32, 64, 96, 160}) {
      for (int64_t depth : {2, 34, 300}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
        expect_product(random({rows, depth}), random({columns, depth}), random({columns}));
        expect_product(random_strided({rows, depth}), random({columns, depth}), {});
      }
    }
  }
}

// A few groups of rows multiply the depth in stretches (panel_products.inl).
TEST_P(LinearPanels, agree_with_the_reference_over_several_stretches) {
  for (int64_t rows : {7, 8}) {
    for (int64_t columns : {32, 96}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const Tensor x = random({rows, 1100});
      const Tensor weight = random({columns, 1100});
      expect_product(x, weight, random({columns}));
      const Tensor packed = in_panels(weight);
      const Tensor last = x.with_layout({1, 1100}, {1100, 1}, (rows - 1) * 1100);
      expect_same_row(linear(last, packed), 0, linear(x, packed), rows - 1);
    }
  }
}

TEST_P(LinearPanels, give_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({70, 130});
  const Tensor weight = in_panels(random({96, 130}));
  const Tensor all = linear(x, weight);
  for (int64_t rows : {1, 2, 3, 4, 5, 6, 7, 11, 16, 17, 33, 64}) {
    const int64_t first = 70 - rows;
    const Tensor out = linear(x.with_layout({rows, 130}, {130, 1}, first * 130), weight);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
  }
}

// There are more rows and columns than a worker multiplies together, and a depth of several chunks.
TEST_P(LinearPanels, give_a_row_the_same_bits_in_batches_that_are_cut) {
  for (const auto& [rows, columns, depth] :
       {std::array<int64_t, 3>{290, 288, 600}, {70, 32, 600}, {256, 112, 2082}}) {
    SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
    const Tensor x = random({rows, depth});
    const Tensor weight = in_panels(random({columns, depth}));
    const Tensor all = linear(x, weight);
    for (int64_t row : {int64_t{0}, int64_t{31}, int64_t{33}, rows - 34, rows - 1}) {
      const Tensor alone = linear(x.with_layout({1, depth}, {depth, 1}, row * depth), weight);
      expect_same_row(alone, 0, all, row);
    }
  }
}

// AMX computes the same bits as the software tiles with which other machines test.
TEST_P(LinearPanels, have_the_same_bits_in_software_tiles_as_in_amx) {
  if (GetParam().isa != Isa::amx_software) GTEST_SKIP() << "one instruction set";
  if (!is_supported(Isa::amx, device::detect_cpu_features())) GTEST_SKIP() << "no AMX";
  for (int64_t rows : {1, 16, 17, 33, 70}) {
    for (int64_t depth : {34, 300}) {
      const Tensor x = random({rows, depth});
      const Tensor weight = in_panels(random({80, depth}));
      const Tensor bias = random({80});
      const Tensor want = make({rows, 80});
      launch_linear(stream_, kernel_table(Isa::amx), x, weight, bias, want);
      expect_same_bits(linear(x, weight, bias), want);
    }
  }
}

TEST_P(LinearPanels, keep_a_nan_in_its_own_row) {
  const Tensor x = random({13, 40});
  const Tensor weight = in_panels(random({32, 40}));
  const Tensor clean = linear(x, weight);
  set_element(x, NAN, 4, 39);
  const Tensor out = linear(x, weight);
  for (int64_t row = 0; row < 13; ++row) {
    if (row != 4) expect_same_row(out, row, clean, row);
  }
  for (int64_t column = 0; column < 32; ++column) EXPECT_TRUE(std::isnan(element(out, 4, column)));
}

TEST_P(LinearPanels, give_fused_ops_the_bits_of_separate_ones) {
  for (int64_t rows : {1, 7, 66}) {
    for (int64_t columns : {16, 48, 80}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns);
      const Tensor x = random({rows, 66});
      const Tensor halves = in_panels(random({2 * columns, 66}));
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

TEST_P(LinearPanels, give_logits_of_the_wanted_rows) {
  const Tensor x = random({5, 66});
  const Tensor weight = random({64, 66});
  const Tensor num_rows = ints({3});
  const Tensor logits = make({5, 64}, DType::f32);
  launch_lm_head(stream_, kernels(), x, in_panels(weight), num_rows, logits);
  const Tensor want = make_ref({5, 64});
  lm_head_ref(x, weight, num_rows, want);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t column = 0; column < 64; ++column) {
      EXPECT_NEAR(element(logits, row, column), element(want, row, column), 2e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         LinearPanels,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
