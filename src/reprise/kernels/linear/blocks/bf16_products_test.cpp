// Tests of the kernels without batch invariance: products of packed weights through tiles of
// bfloat16.
#include <array>
#include <cmath>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

// The limit of bf16_products.inl: fewer rows use other kernels.
constexpr int64_t kLeastRows = 24;

class Bf16Products : public KernelTest {
 protected:
  void SetUp() override {
    if (!has_kernels_without_invariance(kernels().isa)) {
      GTEST_SKIP() << "one table serves with and without batch invariance";
    }
  }
  const KernelTable& in_bf16() {
    return kernel_table(kernels().isa, BatchInvariance::not_required);
  }
  Tensor quantized(const Tensor& x) {
    const Tensor out = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, out);
    return out;
  }
  Tensor random_weight(const std::vector<PanelPart>& parts, int64_t depth) {
    const Tensor weight = make(packed_weight_type(parts, depth, dtype()));
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  Tensor random_weight(PanelFormat format, int64_t columns, int64_t depth) {
    return random_weight({{.format = format, .columns = columns}}, depth);
  }
  Tensor product(const Tensor& q, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor out = make({q.size(0), weight.size(0)});
    launch_linear(stream_, in_bf16(), q, weight, bias, out);
    return out;
  }

  static double rounded(double value) {
    const uint32_t bits = float_to_bits(static_cast<float>(value));
    return static_cast<double>(bits_to_float((bits + 0x8000U) & 0xffff0000U));
  }
  // Compares the product with sums in double of both operands rounded to bfloat16. The tolerance
  // allows for sums in float32, for one weight that is rounded in the other direction, and for the
  // rounding of the stored result.
  void expect_product(const Tensor& q, const Tensor& weight, const Tensor& bias, int64_t depth) {
    const Tensor got = product(q, weight, bias);
    const int64_t blocks = depth / kPanelBlock;
    const auto* x = q.data_as<ActivationBlock>();
    std::vector<double> w(static_cast<size_t>(depth));
    for (int64_t column = 0; column < weight.size(0); ++column) {
      for (int64_t i = 0; i < depth; ++i) {
        w[static_cast<size_t>(i)] = rounded(panel_element(weight.data_as<uint8_t>(), column, i));
      }
      for (int64_t row = 0; row < q.size(0); ++row) {
        double sum = bias.defined() ? element(bias, column) : 0.0;
        double sum_of_magnitudes = std::abs(sum);
        double largest = 0;
        for (int64_t i = 0; i < depth; ++i) {
          const ActivationBlock& block = x[row * blocks + i / kPanelBlock];
          const double code = block.codes[i % kPanelBlock];
          const double term =
              rounded(code * static_cast<double>(block.scale)) * w[static_cast<size_t>(i)];
          sum += term;
          sum_of_magnitudes += std::abs(term);
          largest = std::max(largest, std::abs(term));
        }
        ASSERT_NEAR(element(got, row, column),
                    sum,
                    1e-5 * sum_of_magnitudes + largest / 128 +
                        std::abs(sum) * 1.01 * rounding_error(dtype()))
            << "row " << row << ", column " << column;
      }
    }
  }
};

TEST_P(Bf16Products, agree_with_rounded_operands_in_every_format) {
  for (const PanelFormat format : all_panel_formats()) {
    SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format));
    expect_product(quantized(random({27, 512})), random_weight(format, 48, 512), random({48}), 512);
  }
}

TEST_P(Bf16Products, agree_at_edges_of_rows_columns_and_depth) {
  for (int64_t rows : {kLeastRows, int64_t{32}, int64_t{33}, int64_t{50}, int64_t{300}}) {
    for (int64_t columns : {1, 17, 80}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const int64_t depth = rows % 2 == 0 ? 32 : 288;
      expect_product(quantized(random({rows, depth})),
                     random_weight(PanelFormat::q8_0, columns, depth),
                     {},
                     depth);
    }
  }
}

TEST_P(Bf16Products, agree_where_columns_are_joined_and_rows_of_long_stretches_do_not_fit) {
  // The grid has 10 and 9 blocks side by side.
  expect_product(quantized(random({25, 64})), random_weight(PanelFormat::q4_0, 1200, 64), {}, 64);
  // These are one group of rows, and two groups.
  for (int64_t rows : {24, 40}) {
    const int64_t depth = rows == 24 ? 3808 : 2400;
    expect_product(
        quantized(random({rows, depth})), random_weight(PanelFormat::q8_0, 80, depth), {}, depth);
  }
}

TEST_P(Bf16Products, multiply_parts_in_different_formats) {
  const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_k, .columns = 33},
                                        {.format = PanelFormat::q8_0, .columns = 16},
                                        {.format = PanelFormat::q6_k, .columns = 7},
                                        {.format = PanelFormat::q5_k, .columns = 20}};
  const Tensor weight = random_weight(parts, 512);
  for (int64_t rows : {28, 40}) {
    expect_product(quantized(random({rows, 512})), weight, random({76}), 512);
  }
}

TEST_P(Bf16Products, give_few_rows_the_bits_of_a_batch_invariant_kernel) {
  const Tensor weight = random_weight(PanelFormat::q8_0, 48, 256);
  for (int64_t rows : {int64_t{1}, kLeastRows - 1}) {
    const Tensor q = quantized(random({rows, 256}));
    const Tensor want = make({rows, 48});
    launch_linear(stream_, kernels(), q, weight, {}, want);
    expect_same_bits(product(q, weight), want);
  }
}

TEST_P(Bf16Products, give_a_row_the_same_bits_in_every_large_batch) {
  const Tensor q = quantized(random({300, 544}));
  const Tensor weight = random_weight(PanelFormat::q4_0, 80, 544);
  const Tensor all = product(q, weight);
  for (int64_t rows : {kLeastRows, int64_t{31}, int64_t{50}, int64_t{291}}) {
    const int64_t first = 300 - rows;
    const Tensor out =
        product(q.with_layout({rows, q.size(1)}, {q.size(1), 1}, first * q.size(1)), weight);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
  }
}

TEST_P(Bf16Products, keep_a_nan_in_its_own_row) {
  const Tensor x = random({28, 256});
  const Tensor weight = random_weight(PanelFormat::q8_0, 16, 256);
  const Tensor clean = product(quantized(x), weight);
  set_element(x, NAN, 4, 39);
  const Tensor out = product(quantized(x), weight);
  for (int64_t row = 0; row < 28; ++row) {
    if (row != 4) expect_same_row(out, row, clean, row);
  }
  for (int64_t column = 0; column < 16; ++column) EXPECT_TRUE(std::isnan(element(out, 4, column)));
}

TEST_P(Bf16Products, have_the_bits_of_separate_kernels_when_they_are_fused) {
  for (int64_t rows : {28, 300}) {
    SCOPED_TRACE(testing::Message() << rows << " rows");
    const Tensor q = quantized(random({rows, 64}));
    const Tensor weight = random_weight(PanelFormat::q8_0, 192, 64);
    const Tensor apart = product(q, weight);
    const Tensor residual = random({rows, 192});
    const Tensor sum = make({rows, 192});
    launch_add(stream_, kernels(), residual, apart, sum);
    const Tensor fused_sum = make({rows, 192});
    launch_linear_add(stream_, in_bf16(), q, weight, {}, residual, fused_sum);
    expect_same_bits(fused_sum, sum);

    const Tensor activated = make({rows, 96});
    launch_silu_and_mul(stream_, kernels(), apart, activated);
    const Tensor fused = make({rows, 96});
    launch_linear_silu_and_mul(stream_, in_bf16(), q, weight, {}, fused);
    expect_same_bits(fused, activated);

    const Tensor codes = quantized(activated);
    const Tensor fused_codes = make(codes.shape(), DType::i8);
    launch_linear_silu_and_mul_quantize_blocks(stream_, in_bf16(), q, weight, {}, fused_codes);
    expect_same_bits(fused_codes, codes);
  }
}

TEST_P(Bf16Products, compute_the_logits_that_are_asked_for) {
  const Tensor q = quantized(random({40, 64}));
  const Tensor weight = random_weight(PanelFormat::q8_0, 80, 64);
  for (int num_rows : {0, 5, 30, 40}) {
    const Tensor out = make({40, 80}, DType::f32);
    launch_lm_head(stream_, in_bf16(), q, weight, ints(std::vector<int>{num_rows}), out);
    const Tensor first = q.with_layout({num_rows, q.size(1)}, {q.size(1), 1}, 0);
    const Tensor want = make({num_rows, 80}, DType::f32);
    launch_linear(stream_, in_bf16(), first, weight, {}, want);
    for (int64_t row = 0; row < 40; ++row) {
      if (row < num_rows) {
        expect_same_row(out, row, want, row);
      } else {
        EXPECT_TRUE(std::isnan(element(out, row, 0))) << "row " << row << " was written";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         Bf16Products,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

TEST(KernelTable, differs_without_batch_invariance_only_in_products_of_packed_weights) {
  for (const Isa isa : {Isa::amx_software, Isa::scalar}) {
    const KernelTable& with = kernel_table(isa, BatchInvariance::required);
    const KernelTable& without = kernel_table(isa, BatchInvariance::not_required);
    EXPECT_EQ(&with != &without, has_kernels_without_invariance(isa));
    EXPECT_EQ(with.linear.bf16.cpu, without.linear.bf16.cpu);
    EXPECT_EQ(with.block_linear.bf16.cpu != without.block_linear.bf16.cpu,
              has_kernels_without_invariance(isa));
  }
}

}  // namespace
}  // namespace reprise::kernels
