#include "reprise/kernels/block_linear/block_linear.h"

#include <cmath>

#include "reprise/base/element.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

class BlockLinear : public KernelTest {
 protected:
  Tensor quantized(const Tensor& x) {
    const Tensor out = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, out);
    return out;
  }

  // Codes of all values, the extremes often, and scales of both signs.
  Tensor random_weight(PanelFormat format, int64_t columns, int64_t depth) {
    const int64_t block_bytes = panel_block_bytes(format);
    const Tensor weight = make({columns, depth / 32 * block_bytes}, DType::i8);
    auto* bytes = weight.data_as<uint8_t>();
    for (int64_t i = 0; i < weight.num_elements(); ++i) {
      const uint32_t value = random_() % 300;
      bytes[i] = static_cast<uint8_t>(value < 256 ? value : value % 2 == 0 ? 0 : 255);
    }
    const int64_t panel_block = kPanelColumns * block_bytes;
    for (int64_t end = panel_block; end <= weight.num_elements(); end += panel_block) {
      for (int64_t c = 1; c <= kPanelColumns; ++c) {
        Float16 scale;
        store_element(&scale, (static_cast<float>(random_() % 2001) - 1000.0F) * 1e-4F);
        __builtin_memcpy(bytes + end - 2 * c, &scale, sizeof scale);
      }
    }
    return weight;
  }

  Tensor product(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor out = make({x.size(0), weight.size(0)});
    launch_block_linear(stream_, kernels(), x, weight, bias, out);
    return out;
  }

  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor q = quantized(x);
    const Tensor want = make_ref({x.size(0), weight.size(0)});
    block_linear_ref(q, weight, bias, want);
    const double blocks = static_cast<double>(q.size(1)) / 40;
    // The products of a block are exact; magnitudes of up to 0.1 * 128 * 3 are added per block.
    expect_close(product(q, weight, bias), want, 1.01 * rounding_error(dtype()), 2e-5 * blocks);
  }
};

TEST_P(BlockLinear, agrees_with_the_reference_over_dequantised_operands) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_0}) {
    for (int64_t rows : {1, 2, 3, 4, 5, 63, 65}) {
      for (int64_t columns : {16, 48}) {
        for (int64_t depth : {32, 96}) {
          SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " x " << depth);
          const Tensor weight = random_weight(format, columns, depth);
          expect_product(random({rows, depth}), weight, {});
          expect_product(random({rows, depth}), weight, random({columns}));
        }
      }
    }
  }
}

TEST_P(BlockLinear, agrees_with_the_reference_on_a_real_layer) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_0}) {
    expect_product(random({3, 896}), random_weight(format, 80, 896), {});
  }
}

TEST_P(BlockLinear, gives_a_row_the_same_bits_in_every_batch) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_0}) {
    const Tensor x = quantized(random({70, 96}));
    const Tensor weight = random_weight(format, 144, 96);
    const Tensor bias = random({144});
    const Tensor all = product(x, weight, bias);
    for (int64_t rows : {1, 2, 3, 4, 5, 7, 16, 17, 33, 64}) {
      for (int64_t first : {int64_t{0}, int64_t{3}, 70 - rows}) {
        const Tensor out = product(
            x.with_layout({rows, x.size(1)}, {x.size(1), 1}, first * x.size(1)), weight, bias);
        for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
      }
    }
  }
}

TEST_P(BlockLinear, keeps_a_nan_in_its_own_row) {
  const Tensor x = random({6, 64});
  const Tensor weight = random_weight(PanelFormat::q8_0, 16, 64);
  const Tensor clean = product(quantized(x), weight);
  set_element(x, NAN, 4, 39);
  const Tensor out = product(quantized(x), weight);
  for (int64_t row : {0, 1, 2, 3, 5}) expect_same_row(out, row, clean, row);
  for (int64_t column = 0; column < 16; ++column) {
    EXPECT_TRUE(std::isnan(element(out, 4, column)));
  }
}

TEST_P(BlockLinear, launches_nothing_for_no_rows) {
  const Tensor weight = random_weight(PanelFormat::q4_0, 16, 32);
  EXPECT_FALSE(
      launch_block_linear(stream_, kernels(), make({0, 40}, DType::i8), weight, {}, make({0, 16})));
}

INSTANTIATE_TEST_SUITE_P(AllKernels, BlockLinear, testing::ValuesIn(all_kernel_cases()), case_name);

}  // namespace
}  // namespace reprise::kernels
