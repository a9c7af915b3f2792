#include "reprise/weights/codecs/expert_matrices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/tensor/packed_weight.h"
#include "tests/support/weights/memory_weights.h"

namespace reprise::weights {
namespace {

constexpr const char* kGateUp = "model.layers.0.mlp.experts.gate_up_proj";
constexpr const char* kDown = "model.layers.0.mlp.experts.down_proj";

// Two experts, hidden size 32, intermediate size 2.
ModelConfig config() {
  return parse_model_config(R"({"architectures": ["GptOssForCausalLM"], "vocab_size": 10,
    "hidden_size": 32, "intermediate_size": 2, "num_hidden_layers": 1, "num_attention_heads": 1,
    "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 16, "num_local_experts": 2,
    "num_experts_per_tok": 1})",
                            "config.json")
      .config;
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::vector<float> read(const ExpertMatrices& source, const std::string& name) {
  size_t count = 1;
  for (const int64_t size : source.find(name)->shape) count *= static_cast<size_t>(size);
  std::vector<float> values(count);
  source.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

TEST(ExpertMatrices, turns_floats_over_and_puts_gate_rows_before_up_rows) {
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(kGateUp, DType::f32, {2, 32, 4}, counting(size_t{2} * 32 * 4))
      .add(std::string(kGateUp) + "_bias", DType::f32, {2, 4}, counting(8))
      .add("model.norm.weight", DType::f32, {32}, counting(32));
  const ExpertMatrices source(std::move(stored), config());
  EXPECT_EQ(source.find(kGateUp)->shape, (std::vector<int64_t>{2, 4, 32}));
  const std::vector<float> matrix = read(source, kGateUp);
  // Stored element [expert 1][input 5][row 2]; row 2 is the second row of the gate.
  EXPECT_EQ(matrix[static_cast<size_t>((1 * 4 + 1) * 32 + 5)], (1 * 32 + 5) * 4 + 2);
  // Row 1 is the first row of up.
  EXPECT_EQ(matrix[static_cast<size_t>((0 * 4 + 2) * 32 + 7)], 7 * 4 + 1);
  EXPECT_EQ(read(source, std::string(kGateUp) + "_bias"),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
  EXPECT_EQ(read(source, "model.norm.weight"), counting(32));
}

TEST(ExpertMatrices, dequantises_mxfp4) {
  std::vector<uint8_t> blocks(size_t{2} * 4 * 16, 0);
  std::vector<uint8_t> scales(size_t{2} * 4, 127);  // the factor 1
  blocks[0] = 0x72;                                 // row 0 of expert 0: 1, then 6
  blocks[15] = 0xF9;                                // elements 30 and 31: -0.5, then -6
  blocks[16] = 0x03;                                // row 1: 1.5
  scales[1] = 130;                                  // the factor 8
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(std::string(kGateUp) + "_blocks", DType::u8, {2, 4, 1, 16}, blocks)
      .add(std::string(kGateUp) + "_scales", DType::u8, {2, 4, 1}, scales);
  const ExpertMatrices source(std::move(stored), config());
  const std::vector<float> matrix = read(source, kGateUp);
  EXPECT_EQ(matrix[0], 1.0F);
  EXPECT_EQ(matrix[1], 6.0F);
  EXPECT_EQ(matrix[30], -0.5F);
  EXPECT_EQ(matrix[31], -6.0F);
  EXPECT_EQ(matrix[size_t{2} * 32], 12.0F) << "row 1 is the first row of up";
  EXPECT_EQ(source.names(), std::vector<std::string_view>{kGateUp});
  EXPECT_EQ(source.find(kDown), nullptr);
}

TEST(ExpertMatrices, packs_the_values_of_mxfp4_that_it_would_read) {
  std::vector<uint8_t> blocks(size_t{2} * 4 * 16);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<uint8_t>(i * 37 + i / 16);
  std::vector<uint8_t> scales(size_t{2} * 4);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<uint8_t>(120 + i);
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(std::string(kGateUp) + "_blocks", DType::u8, {2, 4, 1, 16}, blocks)
      .add(std::string(kGateUp) + "_scales", DType::u8, {2, 4, 1}, scales)
      .add(kDown, DType::f32, {2, 32, 4}, counting(size_t{2} * 32 * 4));
  const ExpertMatrices source(std::move(stored), config());
  ASSERT_EQ(source.panel_format(kGateUp), PanelFormat::mxfp4);
  EXPECT_EQ(source.panel_format(kDown), std::nullopt);
  // The rows of both experts, stacked.
  const PanelPart part = {.format = PanelFormat::mxfp4, .columns = 8};
  std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, 32)), 0xAA);
  const PanelHeader header = make_panel_header({&part, 1}, 32);
  std::memcpy(packed.data(), &header, sizeof header);
  source.read_panels(kGateUp, std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes));
  const std::vector<float> values = read(source, kGateUp);
  for (int64_t row = 0; row < 8; ++row) {
    for (int64_t i = 0; i < 32; ++i) {
      EXPECT_EQ(panel_element(packed.data(), row, i), values[static_cast<size_t>(row * 32 + i)])
          << row << ", " << i;
    }
  }
}

TEST(ExpertMatrices, refuses_blocks_without_fitting_scales) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 4, 1}, std::vector<int64_t>{2, 3, 1}}) {
    auto stored = std::make_unique<MemoryWeights>();
    const size_t block_bytes =
        shape[1] == 4 ? 8 : 16;  // half of a block, or another number of rows
    stored
        ->add(std::string(kDown) + "_blocks",
              DType::u8,
              {2, 4, 1, static_cast<int64_t>(block_bytes)},
              std::vector<uint8_t>(size_t{2} * 4 * block_bytes))
        .add(std::string(kDown) + "_scales",
             DType::u8,
             shape,
             std::vector<uint8_t>(static_cast<size_t>(shape[0] * shape[1])));
    EXPECT_THROW(ExpertMatrices(std::move(stored), config()), FileError);
  }
}

}  // namespace
}  // namespace reprise::weights
