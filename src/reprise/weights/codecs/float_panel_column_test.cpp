// Matrices of float8 and of four-bit floats that stay as they are stored.
#include "reprise/weights/codecs/float_panel_column.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/base/error.h"
#include "reprise/weights/codecs/bitsandbytes_matrix.h"
#include "reprise/weights/codecs/quantized_matrix.h"
#include "reprise/weights/codecs/scaled_matrix.h"
#include "reprise/weights/sources/quantizing_weights.h"
#include "tests/support/weights/memory_weights.h"

namespace reprise::weights {
namespace {

float number_at(const std::vector<std::byte>& bytes, int64_t at) {
  float number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

// The elements of panels, each as the product of a code's number and a scale in float32.
std::vector<float> elements_of(const WeightSource& source, const std::string& name) {
  const std::vector<int64_t>& shape = source.find(name)->shape;
  const PanelFormat format = *source.panel_format(name);
  const int64_t depth = shape[1];
  std::vector<std::byte> panels(static_cast<size_t>(panel_bytes(format, shape[0], depth)));
  source.read_panels(name, panels);
  const bool has_e4m3 = format == PanelFormat::f8e4m3_rows || format == PanelFormat::f8e4m3_g128;
  const int64_t row_bytes = panel_column_bytes(format, depth);
  const int64_t group = float_group_elements(format, depth);
  std::vector<float> elements;
  for (int64_t n = 0; n < shape[0]; ++n) {
    const int64_t panel = n / kPanelColumns * kPanelColumns * row_bytes;
    for (int64_t k = 0; k < depth; ++k) {
      const auto code = std::to_integer<uint8_t>(
          panels[static_cast<size_t>(panel + float_code_offset(format, group, n, k))]);
      const float scale =
          number_at(panels, panel + float_scale_offset(format, group, k / group, n));
      const int64_t table = panel + (row_bytes - 4) * kPanelColumns;
      const float number =
          has_e4m3 ? to_float(Float8E4M3{code})
          : format != PanelFormat::f4_g64
              ? to_float(Float8E5M2{code})
              : number_at(panels, table + 4 * (k % 2 == 0 ? code & 15 : code >> 4));
      elements.push_back(number * scale);
    }
  }
  return elements;
}

std::vector<float> numbers_of(const WeightSource& source, const std::string& name) {
  const std::vector<int64_t>& shape = source.find(name)->shape;
  std::vector<float> numbers(static_cast<size_t>(shape[0] * shape[1]));
  source.read(name, DType::f32, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

std::vector<uint8_t> random_codes(size_t count, bool is_e5m2) {
  std::mt19937 random(5);
  std::vector<uint8_t> codes(count);
  for (uint8_t& code : codes) {
    do {
      code = static_cast<uint8_t>(random());
    } while (!std::isfinite(is_e5m2 ? to_float(Float8E5M2{code}) : to_float(Float8E4M3{code})));
  }
  return codes;
}

std::vector<float> random_scales(int64_t count) {
  std::mt19937 random(6);
  std::vector<float> scales(static_cast<size_t>(count));
  for (float& scale : scales) scale = 1e-4F * static_cast<float>(random() % 1000 + 1);
  return scales;
}

struct Float8Case {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> scales;
  std::optional<PanelFormat> panels;
  QuantizationConfig config = {};
  std::string name = "model.layers.0.m";
};

std::unique_ptr<QuantizedMatrices> open_float8(const Float8Case& test,
                                               std::vector<uint8_t> codes,
                                               std::vector<float> scales) {
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(test.name + ".weight", test.dtype, test.shape, codes);
  stored->add(test.name + ".weight_scale", DType::f32, test.scales, scales);
  MatrixMap matrices = find_scaled_matrices(*stored, test.config);
  return std::make_unique<QuantizedMatrices>(std::move(stored), std::move(matrices));
}
std::unique_ptr<QuantizedMatrices> open_float8(const Float8Case& test) {
  int64_t num_scales = 1;
  for (const int64_t size : test.scales) num_scales *= size;
  const auto count = static_cast<size_t>(test.shape[0] * test.shape[1]);
  return open_float8(
      test, random_codes(count, test.dtype == DType::f8e5m2), random_scales(num_scales));
}

TEST(FloatPanels, hold_float8_with_the_values_that_are_read_as_numbers) {
  using enum PanelFormat;
  constexpr QuantizationConfig kBlocks = {.block_rows = 128, .block_columns = 128};
  constexpr DType k4 = DType::f8e4m3;
  const std::vector<Float8Case> cases = {
      {k4, {64, 96}, {1}, f8e4m3_rows},
      {k4, {64, 96}, {}, f8e4m3_rows},
      {k4, {64, 96}, {64, 1}, f8e4m3_rows},
      {DType::f8e5m2, {32, 160}, {32}, f8e5m2_rows},
      {k4, {192, 256}, {2, 2}, f8e4m3_g128, kBlocks},
      {DType::f8e5m2, {192, 256}, {2, 2}, f8e5m2_g128, kBlocks},
      {k4, {64, 512}, {64, 2}, f8e4m3_g128},  // groups of 256
      // Cases without kernels: groups of 64, half a panel, a depth that is not a multiple of 32, a
      // cut last block of the depth, a table, experts.
      {k4, {64, 256}, {64, 4}, std::nullopt},
      {k4, {48, 96}, {1}, std::nullopt},
      {k4, {64, 72}, {1}, std::nullopt},
      {k4, {128, 192}, {1, 2}, std::nullopt, kBlocks},
      {k4, {64, 96}, {1}, std::nullopt, {}, "model.embed_tokens"},
      {k4, {64, 96}, {1}, std::nullopt, {}, "model.layers.0.mlp.experts.3.up_proj"},
  };
  for (const Float8Case& test : cases) {
    SCOPED_TRACE(testing::Message() << "case " << &test - cases.data());
    const auto weights = open_float8(test);
    const std::string name = test.name + ".weight";
    ASSERT_EQ(weights->panel_format(name), test.panels);
    EXPECT_EQ(weights->matrices_without_panels(), test.panels ? "" : "1 matrix");
    if (!test.panels) continue;
    EXPECT_EQ(elements_of(*weights, name), numbers_of(*weights, name));
  }
}

TEST(FloatPanels, refuse_codes_and_scales_that_are_no_numbers) {
  const auto error_of = [](uint8_t code, float scale, DType dtype) -> std::string {
    std::vector<uint8_t> codes(32 * 64);
    codes[777] = code;
    const Float8Case test{dtype, {32, 64}, {1}, std::nullopt};
    try {
      (void)elements_of(*open_float8(test, codes, {scale}), test.name + ".weight");
    } catch (const FileError& error) {
      return std::string(error.code());
    }
    return "";
  };
  EXPECT_EQ(error_of(0x7e, 1.0F, DType::f8e4m3), "");
  EXPECT_EQ(error_of(0x7f, 1.0F, DType::f8e4m3), "E_VALUE");
  EXPECT_EQ(error_of(0xff, 1.0F, DType::f8e4m3), "E_VALUE");
  EXPECT_EQ(error_of(0x7f, 1.0F, DType::f8e5m2), "");  // a NaN of the kernels too
  EXPECT_EQ(error_of(1, NAN, DType::f8e4m3), "E_VALUE");
  EXPECT_EQ(error_of(1, -INFINITY, DType::f8e5m2), "E_VALUE");
}

std::unique_ptr<QuantizedMatrices> open_four_bits(int64_t outputs,
                                                  int64_t depth,
                                                  int64_t block_size,
                                                  const std::string& name) {
  std::mt19937 random(7);
  std::vector<uint8_t> codes(static_cast<size_t>(outputs * depth / 2));
  for (uint8_t& code : codes) code = static_cast<uint8_t>(random());
  const int64_t blocks = (outputs * depth + block_size - 1) / block_size;
  std::vector<float> table(16);
  for (float& entry : table) entry = std::normal_distribution<float>()(random);
  const std::string state = R"({"shape": [)" + std::to_string(outputs) + ", " +
                            std::to_string(depth) + R"(], "blocksize": )" +
                            std::to_string(block_size) + "}";
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(name, DType::u8, {outputs * depth / 2, 1}, codes);
  stored->add(name + ".absmax", DType::f32, {blocks}, random_scales(blocks));
  stored->add(name + ".quant_map", DType::f32, {16}, table);
  stored->add(name + ".quant_state.bitsandbytes__nf4",
              DType::u8,
              {static_cast<int64_t>(state.size())},
              std::vector<char>(state.begin(), state.end()));
  MatrixMap matrices = find_bitsandbytes_matrices(*stored);
  return std::make_unique<QuantizedMatrices>(std::move(stored), std::move(matrices));
}

TEST(FloatPanels, hold_four_bits_with_the_values_that_are_read_as_numbers) {
  const std::string name = "model.layers.0.m.weight";
  for (const auto& [outputs, depth, block_size] :
       {std::array<int64_t, 3>{64, 192, 64}, {32, 64, 128}, {96, 320, 4096}}) {
    SCOPED_TRACE(testing::Message() << outputs << " x " << depth << ", " << block_size);
    const auto weights = open_four_bits(outputs, depth, block_size, name);
    ASSERT_EQ(weights->panel_format(name), PanelFormat::f4_g64);
    EXPECT_EQ(elements_of(*weights, name), numbers_of(*weights, name));
  }
  EXPECT_EQ(open_four_bits(64, 192, 32, name)->panel_format(name), std::nullopt);
  EXPECT_EQ(open_four_bits(48, 192, 64, name)->panel_format(name), std::nullopt);
  EXPECT_EQ(open_four_bits(64, 96, 64, name)->panel_format(name), std::nullopt);
  for (const std::string table : {"wte.weight", "model.embed_tokens.weight"}) {
    EXPECT_EQ(open_four_bits(64, 192, 64, table)->panel_format(table), std::nullopt);
  }
}

TEST(FloatPanels, are_made_of_numbers_while_loading) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kDepth = 96;
  std::mt19937 random(8);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(kRows * kDepth);
  for (float& value : values) value = normal(random);
  values[5] = NAN;
  values[7] = INFINITY;
  for (size_t i = kDepth; i < 2 * kDepth; ++i) values[i] = 0;
  const std::string layer = "model.layers.0.mlp.up_proj.weight";
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(layer, DType::f32, {kRows, kDepth}, values)
      .add("lm_head.weight", DType::f32, {kRows, kDepth}, values)
      .add(
          "model.layers.0.small.weight", DType::f32, {16, kDepth}, std::vector<float>(16 * kDepth));
  const QuantizingWeights weights(std::move(stored), LoadQuantization::fp8);
  EXPECT_EQ(weights.panel_format("lm_head.weight"), std::nullopt);
  EXPECT_EQ(weights.panel_format("model.layers.0.small.weight"), std::nullopt);
  ASSERT_EQ(weights.panel_format(layer), PanelFormat::f8e4m3_rows);
  const std::vector<float> elements = elements_of(weights, layer);
  for (int64_t n = 0; n < kRows; ++n) {
    float largest = 0;
    for (int64_t k = 0; k < kDepth; ++k) {
      float& value = values[static_cast<size_t>(n * kDepth + k)];
      if (!std::isfinite(value)) value = 0;
      largest = std::max(largest, std::abs(value));
    }
    for (int64_t k = 0; k < kDepth; ++k) {
      const auto at = static_cast<size_t>(n * kDepth + k);
      // Half a step of float8: four significant bits, and 2^-9 of the scale near zero.
      const float bound = std::abs(values[at]) / 16 + largest / 448 * 0x1p-10F;
      ASSERT_NEAR(elements[at], values[at], 1.001F * bound) << n << ", " << k;
    }
  }
}

}  // namespace
}  // namespace reprise::weights
