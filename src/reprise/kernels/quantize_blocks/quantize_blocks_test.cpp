#include "reprise/kernels/quantize_blocks/quantize_blocks.h"

#include <cmath>
#include <cstring>

#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/tensor/block_panels.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

/// In double but for the scale, which is float32.
void quantize_blocks_ref(const Tensor& x, const Tensor& out) {
  auto* block = out.data_as<ActivationBlock>();
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t begin = 0; begin < x.size(1); begin += kPanelBlock, ++block) {
      float magnitude = 0;
      for (int64_t i = 0; i < kPanelBlock; ++i) {
        magnitude = std::max(magnitude, std::abs(static_cast<float>(element(x, row, begin + i))));
      }
      block->scale = magnitude / 127.0F;
      block->sums[0] = block->sums[1] = 0;
      for (int64_t i = 0; i < kPanelBlock; ++i) {
        const double code =
            magnitude > 0 ? element(x, row, begin + i) * 127.0 / static_cast<double>(magnitude) : 0;
        block->codes[i] = static_cast<int8_t>(std::nearbyint(code));
        block->sums[i / (kPanelBlock / 2)] =
            static_cast<int16_t>(block->sums[i / (kPanelBlock / 2)] + block->codes[i]);
      }
    }
  }
}

class QuantizeBlocks : public KernelTest {
 protected:
  Tensor quantize(const Tensor& x) {
    const Tensor out = make({x.size(0), x.size(1) / 32 * 40}, DType::i8);
    launch_quantize_blocks(stream_, kernels(), x, out);
    return out;
  }
  static const ActivationBlock& block(const Tensor& q, int64_t row, int64_t index) {
    return q.data_as<ActivationBlock>()[row * q.size(1) / 40 + index];
  }
};

TEST_P(QuantizeBlocks, agrees_with_the_reference) {
  for (int64_t rows : {1, 3, 33}) {
    for (int64_t width : {32, 64, 896}) {
      const Tensor x = random_strided({rows, width});
      const Tensor got = quantize(x);
      const Tensor want = make({rows, width / 32 * 40}, DType::i8);
      quantize_blocks_ref(x, want);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t b = 0; b < width / 32; ++b) {
          EXPECT_EQ(block(got, row, b).scale, block(want, row, b).scale);
          int32_t sums[2] = {0, 0};
          for (int i = 0; i < 32; ++i) {
            // A quotient close to the middle of two codes may be rounded to either.
            EXPECT_NEAR(block(got, row, b).codes[i], block(want, row, b).codes[i], 1);
            EXPECT_NEAR(block(got, row, b).codes[i] * block(got, row, b).scale,
                        element(x, row, b * 32 + i),
                        0.5001 * block(got, row, b).scale);
            sums[i / 16] += block(got, row, b).codes[i];
          }
          EXPECT_EQ(block(got, row, b).sums[0], sums[0]);
          EXPECT_EQ(block(got, row, b).sums[1], sums[1]);
        }
      }
    }
  }
}

TEST_P(QuantizeBlocks, gives_a_block_of_zeros_the_scale_zero) {
  const Tensor x = make({1, 64});
  for (int64_t i = 0; i < 64; ++i) set_element(x, 0.0, 0, i);
  const Tensor q = quantize(x);
  EXPECT_EQ(block(q, 0, 0).scale, 0.0F);
  EXPECT_EQ(block(q, 0, 1).sums[1], 0);
}

TEST_P(QuantizeBlocks, gives_a_row_the_same_bits_in_every_batch) {
  const Tensor x = random({9, 96});
  const Tensor all = quantize(x);
  for (int64_t row = 0; row < 9; ++row) {
    const Tensor alone = quantize(x.with_layout({1, 96}, {96, 1}, row * 96));
    expect_same_row(alone, 0, all, row);
  }
}

TEST_P(QuantizeBlocks, keeps_a_nan_in_its_own_block) {
  const Tensor x = random({2, 64});
  set_element(x, NAN, 1, 40);
  const Tensor q = quantize(x);
  EXPECT_TRUE(std::isnan(block(q, 1, 1).scale));
  EXPECT_FALSE(std::isnan(block(q, 1, 0).scale));
  EXPECT_FALSE(std::isnan(block(q, 0, 1).scale));
}

TEST_P(QuantizeBlocks, has_the_bits_of_two_kernels_after_a_norm) {
  for (int64_t rows : {1, 5}) {
    for (int64_t width : {32, 288, 896}) {
      const Tensor x = random_strided({rows, width});
      const Tensor weight = random({width});
      const Tensor normed = make({rows, width});
      launch_rms_norm(stream_, kernels(), x, weight, 1e-6F, normed);
      const Tensor apart = quantize(normed);
      const Tensor out = make(apart.shape(), DType::i8);
      launch_rms_norm_quantize_blocks(stream_, kernels(), x, weight, 1e-6F, out);
      expect_same_bits(out, apart);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         QuantizeBlocks,
                         testing::ValuesIn(all_kernel_cases()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
