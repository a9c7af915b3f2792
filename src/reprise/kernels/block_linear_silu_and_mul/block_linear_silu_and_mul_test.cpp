#include "reprise/kernels/block_linear_silu_and_mul/block_linear_silu_and_mul.h"

#include <vector>

#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"

namespace reprise::kernels {
namespace {

class BlockLinearSiluAndMul : public KernelTest {
 protected:
  Tensor quantized(const Tensor& x) {
    const Tensor q = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, q);
    return q;
  }
  Tensor random_weight(const std::vector<PanelPart>& parts, int64_t depth) {
    const Tensor weight = make(packed_weight_type(parts, depth).shape, DType::i8);
    fill_packed_weight(weight, parts, depth, random_);
    return weight;
  }
  // The activation by separate kernels.
  Tensor activated(const Tensor& q, const Tensor& weight, const Tensor& bias) {
    const Tensor product = make({q.size(0), weight.size(0)});
    const Tensor out = make({q.size(0), weight.size(0) / 2});
    launch_block_linear(stream_, kernels(), q, weight, bias, product);
    launch_silu_and_mul(stream_, kernels(), product, out);
    return out;
  }
};

TEST_P(BlockLinearSiluAndMul, has_the_bits_of_two_kernels) {
  for (int64_t rows : {1, 2, 7, 40}) {
    for (int64_t columns : {8, 16, 40, 96}) {  // half panels: gates and ups are two parts
      SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
      const PanelPart half = {.format = PanelFormat::q5_0, .columns = columns};
      const Tensor weight = random_weight({half, half}, 64);
      const Tensor bias = columns == 40 ? Tensor{} : random({2 * columns});
      const Tensor q = quantized(random({rows, 64}));
      const Tensor out = make({rows, columns});
      launch_block_linear_silu_and_mul(stream_, kernels(), q, weight, bias, out);
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
    launch_block_linear_silu_and_mul(stream_, kernels(), q, weight, {}, out);
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
      launch_block_linear_silu_and_mul_quantize_blocks(
          stream_, kernels(), q, weight, {}, dtype(), out);
      expect_same_bits(out, apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLinearSiluAndMul,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
