#include "reprise/weights/sources/dummy_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "reprise/weights/convert.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

ModelConfig config_of(std::string_view architecture, int64_t hidden_size = 64) {
  return parse_model_config(
             R"({"architectures":[")" + std::string(architecture) + R"("],"hidden_size":)" +
                 std::to_string(hidden_size) +
                 R"(,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,)"
                 R"("num_key_value_heads":2,"head_dim":16,"vocab_size":1000,)"
                 R"("max_position_embeddings":128,"torch_dtype":"bfloat16"})",
             "config.json")
      .config;
}

TEST(DummyWeights, has_exactly_what_every_architecture_needs) {
  for (const char* name :
       {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    const ModelConfig config = config_of(name);
    const DummyWeights weights(config, 7);
    EXPECT_TRUE(verify_weights(config, weights).empty()) << name;
    EXPECT_EQ(weights.find("lm_head.weight")->dtype, DType::bf16);
  }
  ModelConfig tied = config_of("LlamaForCausalLM");
  tied.tie_word_embeddings = true;
  EXPECT_FALSE(DummyWeights(tied, 7).has("lm_head.weight"));
}

TEST(DummyWeights, depends_on_seed_name_and_index_alone) {
  const DummyWeights weights(config_of("Qwen2ForCausalLM"), 7);
  const DummyWeights wider(config_of("Qwen2ForCausalLM", 128), 7);
  const DummyWeights other_seed(config_of("Qwen2ForCausalLM"), 8);
  const auto up = read_f32(weights, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(up, read_f32(weights, "model.layers.0.mlp.up_proj.weight"));
  EXPECT_NE(up, read_f32(weights, "model.layers.1.mlp.up_proj.weight"));
  EXPECT_NE(up, read_f32(other_seed, "model.layers.0.mlp.up_proj.weight"));
  auto wide = read_f32(wider, "model.layers.0.mlp.up_proj.weight");
  wide.resize(up.size());
  EXPECT_EQ(up, wide);
}

// The expected bits come from a second implementation in Python: dummy models must be the same on
// every machine and in every release.
TEST(DummyWeights, keeps_its_values_from_release_to_release) {
  const auto values =
      read_f32(DummyWeights(config_of("LlamaForCausalLM"), 0), "model.embed_tokens.weight");
  EXPECT_EQ(std::bit_cast<uint32_t>(values[0]), 0x3ba4f175u);
  EXPECT_EQ(std::bit_cast<uint32_t>(values[1]), 0x3c8dc160u);
  EXPECT_EQ(std::bit_cast<uint32_t>(values[63'999]), 0xbc8c1461u);
}

TEST(DummyWeights, is_bell_shaped_with_norms_at_one) {
  const DummyWeights weights(config_of("Qwen3ForCausalLM"), 3);
  const auto values = read_f32(weights, "model.embed_tokens.weight");
  double sum = 0;
  double sum_of_squares = 0;
  for (const float value : values) {
    sum += value;
    sum_of_squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0.0, 5 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(sum_of_squares / count), 0.02, 0.0002);
  const auto within = std::count_if(
      values.begin(), values.end(), [](float value) { return std::abs(value) < 0.02f; });
  EXPECT_NEAR(static_cast<double>(within) / count, 0.683, 0.02);
  for (const char* norm : {"model.norm.weight", "model.layers.1.self_attn.q_norm.weight"}) {
    for (const float value : read_f32(weights, norm)) EXPECT_EQ(value, 1.0f);
  }
}

TEST(DummyWeights, reads_every_float_type_as_the_rounded_f32) {
  const DummyWeights weights(config_of("LlamaForCausalLM"), 3);
  const auto values = read_f32(weights, "lm_head.weight");
  std::vector<uint16_t> halves(values.size());
  weights.read("lm_head.weight", DType::f16, std::as_writable_bytes(std::span(halves)));
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(halves[i], f32_to_f16(values[i]));
  weights.read("lm_head.weight", DType::bf16, std::as_writable_bytes(std::span(halves)));
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(halves[i], f32_to_bf16(values[i]));
  EXPECT_EQ(code_of([&] { weights.read("lm_head.weight", DType::i32, {}); }), "E_DTYPE");
  EXPECT_EQ(code_of([&] { weights.read("none", DType::f32, {}); }), "E_MISSING");
}

TEST(ExpectedTensors, lists_the_names_and_shapes_of_qwen3) {
  ModelConfig config = config_of("Qwen3ForCausalLM");
  config.num_hidden_layers = 1;
  std::vector<std::pair<std::string, std::vector<int64_t>>> found;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    found.emplace_back(tensor.name, tensor.shape);
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(found,
            (std::vector<std::pair<std::string, std::vector<int64_t>>>{
                {"model.embed_tokens.weight", {1000, 64}},
                {layer + "input_layernorm.weight", {64}},
                {layer + "self_attn.q_proj.weight", {64, 64}},
                {layer + "self_attn.k_proj.weight", {32, 64}},
                {layer + "self_attn.v_proj.weight", {32, 64}},
                {layer + "self_attn.q_norm.weight", {16}},
                {layer + "self_attn.k_norm.weight", {16}},
                {layer + "self_attn.o_proj.weight", {64, 64}},
                {layer + "post_attention_layernorm.weight", {64}},
                {layer + "mlp.gate_proj.weight", {96, 64}},
                {layer + "mlp.up_proj.weight", {96, 64}},
                {layer + "mlp.down_proj.weight", {64, 96}},
                {"model.norm.weight", {64}},
                {"lm_head.weight", {1000, 64}},
            }));
}

// Qwen2.5-0.5B as published: 494 032 768 parameters with the tied embedding counted once.
TEST(ExpectedTensors, counts_the_parameters_of_a_published_model) {
  const ModelConfig config =
      parse_model_config(R"({"architectures":["Qwen2ForCausalLM"],"hidden_size":896,)"
                         R"("intermediate_size":4864,"num_hidden_layers":24,)"
                         R"("num_attention_heads":14,"num_key_value_heads":2,"vocab_size":151936,)"
                         R"("max_position_embeddings":32768,"tie_word_embeddings":true})",
                         "config.json")
          .config;
  EXPECT_EQ(num_parameters(config), 494'032'768);
}

}  // namespace
}  // namespace reprise::weights
