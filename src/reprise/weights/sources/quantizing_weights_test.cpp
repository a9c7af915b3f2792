#include "reprise/weights/sources/quantizing_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "reprise/tensor/int8_panels.h"
#include "reprise/tensor/packed_weight.h"
#include "tests/support/weights/memory_weights.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

constexpr const char* kLayer = "model.layers.0.mlp.up_proj.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

std::vector<float> random_values(size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

QuantizingWeights quantizing(const std::vector<float>& values,
                             int64_t rows,
                             int64_t depth,
                             LoadQuantization method) {
  auto source = std::make_unique<MemoryWeights>();
  source->add(kLayer, DType::f32, {rows, depth}, values)
      .add(kEmbedding, DType::f32, {rows, depth}, values)
      .add(
          "model.norm.weight", DType::f32, {depth}, std::vector<float>(static_cast<size_t>(depth)));
  return {std::move(source), method};
}

// The elements of a packed matrix.
std::vector<double> unpacked(const QuantizingWeights& source, const char* name) {
  const std::vector<int64_t>& shape = source.find(name)->shape;
  const PanelPart part = {.format = *source.panel_format(name), .columns = shape[0]};
  std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, shape[1])));
  const PanelHeader header = make_panel_header({&part, 1}, shape[1]);
  std::memcpy(packed.data(), &header, sizeof header);
  source.read_panels(name, std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes));
  std::vector<double> elements;
  for (int64_t row = 0; row < shape[0]; ++row) {
    for (int64_t i = 0; i < shape[1]; ++i) {
      elements.push_back(panel_element(packed.data(), row, i));
    }
  }
  return elements;
}

TEST(QuantizingWeights, stays_within_half_a_step_of_every_value) {
  constexpr int64_t kRows = 18;
  constexpr int64_t kDepth = 256;
  const std::vector<float> values = random_values(kRows * kDepth);
  for (const auto& [method, name, group, steps] :
       std::vector<std::tuple<LoadQuantization, const char*, int64_t, double>>{
           {LoadQuantization::q8_0, kLayer, 32, 127},
           {LoadQuantization::int8, kLayer, kDepth, 127},
           {LoadQuantization::int4, kLayer, 32, 8},
           {LoadQuantization::int4, kEmbedding, 32, 127}}) {
    const std::vector<double> got = unpacked(quantizing(values, kRows, kDepth, method), name);
    for (size_t begin = 0; begin < values.size(); begin += static_cast<size_t>(group)) {
      double largest = 0;
      for (size_t i = begin; i < begin + static_cast<size_t>(group); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(values[i])));
      }
      // The scale is float16, and int4 has no code for the largest value of the opposite sign.
      const double bound = largest / steps * (steps == 8 ? 1.01 : 0.52) + largest * 1e-3;
      for (size_t i = begin; i < begin + static_cast<size_t>(group); ++i) {
        ASSERT_NEAR(got[i], values[i], bound) << i << " of " << name;
      }
    }
  }
}

TEST(QuantizingWeights, packs_matrices_of_whole_blocks_only) {
  const auto source = [](int64_t depth, LoadQuantization method) {
    return quantizing(random_values(static_cast<size_t>(16 * depth)), 16, depth, method);
  };
  const QuantizingWeights int8 = source(128, LoadQuantization::int8);
  EXPECT_EQ(int8.panel_format(kLayer), PanelFormat::int8_g128);
  EXPECT_EQ(int8.panel_format("model.norm.weight"), std::nullopt);
  EXPECT_EQ(int8.panel_format("unknown"), std::nullopt);
  EXPECT_EQ(source(96, LoadQuantization::int8).panel_format(kLayer), PanelFormat::q8_0);
  EXPECT_EQ(source(40, LoadQuantization::int8).panel_format(kLayer), std::nullopt);
  EXPECT_EQ(source(96, LoadQuantization::int4).panel_format(kLayer), PanelFormat::q4_0);
}

TEST(QuantizingWeights, packs_int8_in_rows_with_one_scale_where_the_shape_fits) {
  const auto format = [](int64_t rows, int64_t depth) {
    return quantizing(random_values(static_cast<size_t>(rows * depth)),
                      rows,
                      depth,
                      LoadQuantization::int8)
        .panel_format(kLayer);
  };
  EXPECT_EQ(format(32, 64), PanelFormat::int8_rows);
  EXPECT_EQ(format(64, 192), PanelFormat::int8_rows);
  EXPECT_EQ(format(48, 128), PanelFormat::int8_g128);  // its halves are not whole panels
  EXPECT_EQ(format(32, 96), PanelFormat::q8_0);
}

TEST(QuantizingWeights, writes_codes_scales_and_sums_of_int8_rows) {
  constexpr int64_t kRows = 64;
  constexpr int64_t kDepth = 192;
  std::vector<float> values = random_values(kRows * kDepth);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = kDepth; i < 2 * kDepth; ++i) values[i] = 0;
  const QuantizingWeights source = quantizing(values, kRows, kDepth, LoadQuantization::int8);
  std::vector<int8_t> panels(
      static_cast<size_t>(panel_bytes(PanelFormat::int8_rows, kRows, kDepth)));
  source.read_panels(kLayer, std::as_writable_bytes(std::span(panels)));
  for (int64_t row = 0; row < kRows; ++row) {
    float largest = 0;
    for (int64_t i = 0; i < kDepth; ++i) {
      const float value = values[static_cast<size_t>(row * kDepth + i)];
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    float scale = -1;
    std::memcpy(&scale, panels.data() + int8_scale_offset(row, kDepth), sizeof scale);
    ASSERT_EQ(scale, largest / 127.0F) << "row " << row;
    int32_t sum = 0;
    for (int64_t i = 0; i < kDepth; ++i) {
      const int8_t code = panels[static_cast<size_t>(int8_panel_offset(row, i, kDepth))];
      const float value = values[static_cast<size_t>(row * kDepth + i)];
      const float want = std::isfinite(value) ? value : 0.0F;
      ASSERT_NEAR(static_cast<float>(code) * scale, want, 0.51F * scale) << row << ", " << i;
      sum += code;
    }
    int32_t stored_sum = 0;
    std::memcpy(&stored_sum, panels.data() + int8_sum_offset(row, kDepth), sizeof stored_sum);
    ASSERT_EQ(stored_sum, sum) << "row " << row;
  }
}

TEST(QuantizingWeights, survives_values_that_are_no_numbers) {
  std::vector<float> values = random_values(16 * 128);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[40] = -std::numeric_limits<float>::infinity();
  values[70] = 3e38F;
  values[129] = 1e-42F;
  for (const LoadQuantization method :
       {LoadQuantization::q8_0, LoadQuantization::int8, LoadQuantization::int4}) {
    const std::vector<double> got = unpacked(quantizing(values, 16, 128, method), kLayer);
    for (const double element : got) ASSERT_TRUE(std::isfinite(element));
    EXPECT_EQ(got[3], 0.0);
  }
}

TEST(QuantizingWeights, packs_the_matrices_of_all_experts_and_leaves_routers_as_they_are) {
  const char* experts = "model.layers.0.mlp.experts.up_proj";
  const std::vector<float> values = random_values(3 * 16 * 64);
  auto source = std::make_unique<MemoryWeights>();
  source->add(experts, DType::f32, {3, 16, 64}, values)
      .add("model.layers.0.mlp.gate.weight", DType::f32, {3, 64}, random_values(192))
      .add("model.layers.0.block_sparse_moe.gate.weight", DType::f32, {3, 64}, random_values(192))
      .add("model.layers.0.mlp.gate_proj.weight", DType::f32, {3, 64}, random_values(192))
      .add("model.layers.0.conv.weight", DType::f32, {3, 16, 64}, values);
  const QuantizingWeights quantising(std::move(source), LoadQuantization::q8_0);
  EXPECT_EQ(quantising.panel_format(experts), PanelFormat::q8_0);
  EXPECT_EQ(quantising.panel_format("model.layers.0.mlp.gate.weight"), std::nullopt);
  EXPECT_EQ(quantising.panel_format("model.layers.0.block_sparse_moe.gate.weight"), std::nullopt);
  EXPECT_EQ(quantising.panel_format("model.layers.0.mlp.gate_proj.weight"), PanelFormat::q8_0);
  EXPECT_EQ(quantising.panel_format("model.layers.0.conv.weight"), std::nullopt);
  // The panels of one matrix that has the rows of all experts.
  const PanelPart part = {.format = PanelFormat::q8_0, .columns = 48};
  std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, 64)));
  const PanelHeader header = make_panel_header({&part, 1}, 64);
  std::memcpy(packed.data(), &header, sizeof header);
  quantising.read_panels(experts,
                         std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes));
  for (int64_t row = 0; row < 48; ++row) {
    for (int64_t i = 0; i < 64; ++i) {
      ASSERT_NEAR(
          panel_element(packed.data(), row, i), values[static_cast<size_t>(row * 64 + i)], 0.001);
    }
  }
}

}  // namespace
}  // namespace reprise::weights
