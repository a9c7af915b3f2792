// Tests of products with weights in blocks that process their sums further.
#include <cmath>
#include <vector>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class BlockLinearAdd : public KernelTest {};

TEST_P(BlockLinearAdd, has_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 2, 7, 40, 265}) {
    for (int64_t columns : {16, 50, 96}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const Tensor x = random({rows, 64});
      const Tensor q = make({rows, 80}, DType::i8);
      launch_quantize_blocks(stream_, kernels(), x, q);
      const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_0, .columns = columns}};
      const Tensor weight = make(packed_weight_type(parts, 64, dtype()));
      fill_packed_weight(weight, parts, random_);
      const Tensor bias = columns == 50 ? Tensor{} : random({columns});
      const Tensor residual = random_strided({rows, columns});
      const Tensor product = make({rows, columns});
      const Tensor apart = make({rows, columns});
      launch_linear(stream_, kernels(), q, weight, bias, product);
      launch_add(stream_, kernels(), residual, product, apart);
      const Tensor out = make({rows, columns});
      launch_linear_add(stream_, kernels(), q, weight, bias, residual, out);
      expect_same_bits(out, apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLinearAdd,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

class BlockLinearSiluAndMul : public KernelTest {
 protected:
  Tensor quantized(const Tensor& x) {
    const Tensor q = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, q);
    return q;
  }
  Tensor random_weight(const std::vector<PanelPart>& parts, int64_t depth) {
    const Tensor weight = make(packed_weight_type(parts, depth, dtype()));
    fill_packed_weight(weight, parts, random_);
    return weight;
  }
  // Computes the activation with separate kernels.
  Tensor activated(const Tensor& q, const Tensor& weight, const Tensor& bias) {
    const Tensor product = make({q.size(0), weight.size(0)});
    const Tensor out = make({q.size(0), weight.size(0) / 2});
    launch_linear(stream_, kernels(), q, weight, bias, product);
    launch_silu_and_mul(stream_, kernels(), product, out);
    return out;
  }
};

TEST_P(BlockLinearSiluAndMul, has_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 2, 7, 40}) {
    for (int64_t columns : {8, 16, 40, 96}) {  // half panels: gates and ups are two separate parts
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const PanelPart half = {.format = PanelFormat::q5_0, .columns = columns};
      const Tensor weight = random_weight({half, half}, 64);
      const Tensor bias = columns == 40 ? Tensor{} : random({2 * columns});
      const Tensor q = quantized(random({rows, 64}));
      const Tensor out = make({rows, columns});
      launch_linear_silu_and_mul(stream_, kernels(), q, weight, bias, out);
      expect_same_bits(out, activated(q, weight, bias));
    }
  }
}

TEST_P(BlockLinearSiluAndMul, takes_gates_and_ups_in_different_formats) {
  const Tensor weight = random_weight(
      {{.format = PanelFormat::q4_0, .columns = 64}, {.format = PanelFormat::q8_0, .columns = 64}},
      64);
  for (int64_t rows : {1, 20}) {
    const Tensor q = quantized(random({rows, 64}));
    const Tensor out = make({rows, 64});
    launch_linear_silu_and_mul(stream_, kernels(), q, weight, {}, out);
    expect_same_bits(out, activated(q, weight, {}));
  }
}

TEST_P(BlockLinearSiluAndMul, has_the_bits_of_three_kernels_when_it_quantises) {
  for (int64_t rows : {1, 3, 40, 265}) {
    for (int64_t columns : {32, 96}) {
      const Tensor weight =
          random_weight({{.format = PanelFormat::q4_0, .columns = 2 * columns}}, 64);
      const Tensor q = quantized(random({rows, 64}));
      const Tensor apart = quantized(activated(q, weight, {}));
      const Tensor out = make(apart.shape(), DType::i8);
      launch_linear_silu_and_mul_quantize_blocks(stream_, kernels(), q, weight, {}, out);
      expect_same_bits(out, apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLinearSiluAndMul,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

class BlockLmHead : public KernelTest {};

TEST_P(BlockLmHead, computes_the_rows_that_the_device_counts_and_leaves_the_others_alone) {
  const Tensor x = random({70, 64});
  const Tensor q = make({70, 80}, DType::i8);
  launch_quantize_blocks(stream_, kernels(), x, q);
  const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_0, .columns = 32}};
  const Tensor weight = make(packed_weight_type(parts, 64, dtype()));
  fill_packed_weight(weight, parts, random_);
  const Tensor all = make_ref({70, 32});
  launch_linear(stream_, kernels(), q, weight, {}, all);
  for (int count : {0, 1, 3, 63, 64, 65, 70, 71, -1}) {
    const Tensor out = make_ref({70, 32});  // NaNs
    launch_lm_head(stream_, kernels(), q, weight, ints({count}), out);
    for (int64_t row = 0; row < 70; ++row) {
      if (row < count) {
        expect_same_row(out, row, all, row);
      } else {
        EXPECT_TRUE(std::isnan(element(out, row, 31))) << count << " rows touch row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLmHead,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
