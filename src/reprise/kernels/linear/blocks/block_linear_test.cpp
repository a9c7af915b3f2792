#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks.h"
#include "tests/support/kernels/kernel_test_fixture.h"
#include "tests/support/kernels/packed_weights.h"
#include "tests/support/kernels/products.h"

namespace reprise::kernels {
namespace {

class BlockLinear : public KernelTest {
 protected:
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

  Tensor product(const Tensor& x, const Tensor& weight, const Tensor& bias = {}) {
    const Tensor out = make({x.size(0), weight.size(0)});
    launch_linear(stream_, kernels(), x, weight, bias, out);
    return out;
  }

  void expect_product(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Tensor q = quantized(x);
    const Tensor want = make_ref({x.size(0), weight.size(0)});
    linear_ref(q, weight, bias, want);
    const double blocks = static_cast<double>(q.size(1)) / 40;
    // The products of a block are exact. For each block, a term of up to 0.1 * 128 * 3 is added.
    expect_close(product(q, weight, bias), want, 1.01 * rounding_error(dtype()), 4e-5 * blocks);
  }
};

TEST_P(BlockLinear, agrees_with_the_reference_in_every_format) {
  for (const PanelFormat format : all_panel_formats()) {
    for (int64_t rows : {1, 7}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(format) << ", " << rows << " rows");
      expect_product(random({rows, 512}), random_weight(format, 48, 512), random({48}));
    }
  }
}

// Sums of 16 bits are nearly as large as they can be. Codes of 0x77 are the largest of float4.
TEST_P(BlockLinear, does_not_saturate_with_the_largest_codes) {
  for (const PanelFormat format : all_panel_formats()) {
    const PanelPart part = {.format = format, .columns = 32};
    const Tensor weight = random_weight(format, 32, 512);
    for (int byte : {0x00, 0x77, 0xff}) {
      set_packed_codes(weight, {&part, 1}, static_cast<uint8_t>(byte));
      for (int64_t rows : {1, 4, 24}) {
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(format) << ", codes " << byte << ", " << rows << " rows");
        const Tensor x = make({rows, 512});
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < 512; ++i) set_element(x, row % 2 == 0 ? 0.125 : -0.125, row, i);
        }
        expect_product(x, weight, {});
      }
    }
  }
}

TEST_P(BlockLinear, agrees_with_the_reference_at_edges_of_rows_columns_and_depth) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_1, PanelFormat::int4_g32}) {
    for (int64_t rows : {1, 4, 5, 6, 11, 65, 265}) {
      for (int64_t columns : {1, 16, 17, 80}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns");
        const int64_t depth = rows % 2 == 0 ? 32 : 288;
        expect_product(
            random({rows, depth}), random_weight(format, columns, depth), random({columns}));
      }
    }
  }
}

TEST_P(BlockLinear, agrees_with_the_reference_on_a_real_layer) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q5_0}) {
    expect_product(random({3, 896}), random_weight(format, 80, 896), {});
  }
}

// The weight has parts of different formats, like q, k and v of a file whose v has more bits.
TEST_P(BlockLinear, multiplies_with_parts_in_different_formats) {
  const std::vector<PanelPart> parts = {{.format = PanelFormat::q4_k, .columns = 33},
                                        {.format = PanelFormat::q8_0, .columns = 16},
                                        {.format = PanelFormat::q6_k, .columns = 7},
                                        {.format = PanelFormat::q5_k, .columns = 20}};
  const Tensor weight = random_weight(parts, 256);
  for (int64_t rows : {1, 2, 40}) expect_product(random({rows, 256}), weight, random({76}));
}

TEST_P(BlockLinear, gives_a_row_the_same_bits_in_every_batch) {
  for (const PanelFormat format : all_panel_formats()) {
    const Tensor x = quantized(random({280, 256}));
    const Tensor weight = random_weight(format, 48, 256);
    const Tensor bias = random({48});
    const Tensor all = product(x, weight, bias);
    for (int64_t rows : {1, 2, 17, 265}) {
      for (int64_t first : {int64_t{3}, 280 - rows}) {
        const Tensor out = product(
            x.with_layout({rows, x.size(1)}, {x.size(1), 1}, first * x.size(1)), weight, bias);
        for (int64_t row = 0; row < rows; ++row) expect_same_row(out, row, all, first + row);
      }
    }
  }
}

// Several rows are multiplied with one stretch of blocks after the other. A row alone is not.
TEST_P(BlockLinear, gives_a_row_the_same_bits_over_several_stretches) {
  const auto expect_same = [&](const Tensor& weight, int64_t depth) {
    const Tensor x = quantized(random({7, depth}));
    const Tensor all = product(x, weight);
    for (int64_t row : {0, 6}) {
      const Tensor alone = x.with_layout({1, x.size(1)}, {x.size(1), 1}, row * x.size(1));
      expect_same_row(product(alone, weight), 0, all, row);
    }
  };
  for (const PanelFormat format : all_panel_formats()) {
    // 17, 24, 28 and 40 blocks
    for (int64_t depth : {544, 768, 896, 1280}) {
      if (depth % panel_group_elements(format) != 0) continue;
      SCOPED_TRACE(testing::Message() << static_cast<int>(format) << ", depth " << depth);
      expect_same(random_weight(format, 48, depth), depth);
    }
  }
  expect_same(random_weight({{.format = PanelFormat::q8_0, .columns = 16},
                             {.format = PanelFormat::q4_k, .columns = 32},
                             {.format = PanelFormat::q6_k, .columns = 16}},
                            768),
              768);
}

// AMX tiles sum the integers of many rows, and vectors those of few rows; vectors scale the sums in
// both cases. So kernels with tiles give the same bits as kernels with the same vectors and without
// tiles.
TEST_P(BlockLinear, gives_the_bits_of_vectors_where_tiles_multiply) {
  const Isa isa = kernels().isa;
  if (isa != Isa::amx && isa != Isa::amx_software) GTEST_SKIP() << "these kernels have no tiles";
  const KernelTable& without = kernel_table(isa == Isa::amx ? Isa::avx512 : Isa::scalar);
  const auto expect_same = [&](int64_t rows, const Tensor& weight, int64_t depth) {
    const Tensor x = quantized(random({rows, depth}));
    const Tensor bias = random({weight.size(0)});
    const Tensor want = make({rows, weight.size(0)});
    launch_linear(stream_, without, x, weight, bias, want);
    const Tensor got = product(x, weight, bias);
    for (int64_t row = 0; row < rows; ++row) expect_same_row(got, row, want, row);
  };
  for (const PanelFormat format : all_panel_formats()) {
    SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format));
    // The last stretch of blocks is shorter where the format allows it.
    const int64_t depth = 512 + panel_group_elements(format);
    const Tensor weight = random_weight(format, 48, depth);
    for (int64_t rows : {25, 41, 48}) expect_same(rows, weight, depth);
  }
  expect_same(300, random_weight(PanelFormat::q8_0, 80, 96), 96);
  expect_same(60,
              random_weight({{.format = PanelFormat::q4_k, .columns = 33},
                             {.format = PanelFormat::q8_0, .columns = 16},
                             {.format = PanelFormat::q5_k, .columns = 20}},
                            256),
              256);
}

TEST_P(BlockLinear, keeps_a_nan_in_its_own_row) {
  for (const PanelFormat format : {PanelFormat::q8_0, PanelFormat::q4_k}) {
    const Tensor x = random({6, 256});
    const Tensor weight = random_weight(format, 16, 256);
    const Tensor clean = product(quantized(x), weight);
    set_element(x, NAN, 4, 39);
    const Tensor out = product(quantized(x), weight);
    for (int64_t row : {0, 1, 2, 3, 5}) expect_same_row(out, row, clean, row);
    for (int64_t column = 0; column < 16; ++column) {
      EXPECT_TRUE(std::isnan(element(out, 4, column)));
    }
  }
}

TEST_P(BlockLinear, launches_nothing_for_no_rows) {
  const Tensor weight = random_weight(PanelFormat::q4_0, 16, 32);
  EXPECT_FALSE(
      launch_linear(stream_, kernels(), make({0, 40}, DType::i8), weight, {}, make({0, 16})));
}

INSTANTIATE_TEST_SUITE_P(AllKernels,
                         BlockLinear,
                         testing::ValuesIn(kernel_cases_of_bytes()),
                         case_name);

}  // namespace
}  // namespace reprise::kernels
