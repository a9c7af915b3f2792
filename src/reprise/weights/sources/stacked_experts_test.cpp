#include "reprise/weights/sources/stacked_experts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "reprise/base/error.h"
#include "tests/support/weights/memory_weights.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

constexpr const char* kGateUp = "model.layers.0.mlp.experts.gate_up_proj";
constexpr const char* kDown = "model.layers.0.mlp.experts.down_proj";

// One layer with two experts of two elements, after a hidden state of four.
ModelConfig config() {
  return parse_model_config(
             R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 8, "hidden_size": 4,
      "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 2,
      "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 2,
      "max_position_embeddings": 8})",
             "config.json")
      .config;
}

std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::unique_ptr<MemoryWeights> stacked() {
  auto source = std::make_unique<MemoryWeights>();
  source->add(kGateUp, DType::f32, {2, 4, 4}, numbers(32));
  source->add(kDown, DType::f32, {2, 4, 2}, numbers(16));
  source->add("model.norm.weight", DType::f32, {4}, numbers(4));
  return source;
}

TEST(StackedExperts, are_presented_as_a_matrix_for_each_expert) {
  const auto source = with_single_experts(stacked(), config());
  const auto of_expert = [&](int expert, const char* module) {
    return read_f32(*source,
                    fmt::format("model.layers.0.mlp.experts.{}.{}.weight", expert, module));
  };
  EXPECT_THAT(of_expert(0, "gate_proj"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(of_expert(0, "up_proj"), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(of_expert(1, "gate_proj"), ElementsAre(16, 17, 18, 19, 20, 21, 22, 23));
  EXPECT_THAT(of_expert(1, "up_proj"), ElementsAre(24, 25, 26, 27, 28, 29, 30, 31));
  EXPECT_THAT(of_expert(1, "down_proj"), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(read_f32(*source, "model.norm.weight"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(source->names(), Not(::testing::Contains(kGateUp)));
  EXPECT_EQ(source->names().size(), 7U);
  EXPECT_EQ(source->stored_bytes("model.layers.0.mlp.experts.1.up_proj.weight"), 32U);
}

TEST(StackedExperts, of_llama_4_are_turned_over) {
  const ModelConfig llama4 = parse_model_config(
                                 R"({"architectures": ["Llama4ForCausalLM"], "vocab_size": 8,
      "hidden_size": 4, "intermediate_size": 2, "intermediate_size_mlp": 4, "num_hidden_layers": 1,
      "num_attention_heads": 2, "head_dim": 2, "num_local_experts": 2, "num_experts_per_tok": 1,
      "max_position_embeddings": 8})",
                                 "config.json")
                                 .config;
  auto stored = std::make_unique<MemoryWeights>();
  stored->add(
      "model.layers.0.feed_forward.experts.gate_up_proj", DType::f32, {2, 4, 4}, numbers(32));
  stored->add("model.layers.0.feed_forward.experts.down_proj", DType::f32, {2, 2, 4}, numbers(16));
  const auto source = with_single_experts(std::move(stored), llama4);
  const auto of_expert = [&](int expert, const char* module) {
    return read_f32(
        *source, fmt::format("model.layers.0.feed_forward.experts.{}.{}.weight", expert, module));
  };
  EXPECT_THAT(of_expert(0, "gate_proj"), ElementsAre(0, 4, 8, 12, 1, 5, 9, 13));
  EXPECT_THAT(of_expert(0, "up_proj"), ElementsAre(2, 6, 10, 14, 3, 7, 11, 15));
  EXPECT_THAT(of_expert(1, "up_proj"), ElementsAre(18, 22, 26, 30, 19, 23, 27, 31));
  EXPECT_THAT(of_expert(1, "down_proj"), ElementsAre(8, 12, 9, 13, 10, 14, 11, 15));
}

TEST(StackedExperts, of_another_size_are_refused) {
  auto source = stacked();
  source->remove(kDown).add(kDown, DType::f32, {2, 2, 4}, numbers(16));
  const std::string message =
      message_of([&] { const auto wrapped = with_single_experts(std::move(source), config()); });
  EXPECT_THAT(message, ::testing::HasSubstr("config.json asks for"));
}

TEST(StackedExperts, leave_other_checkpoints_alone) {
  auto source = std::make_unique<MemoryWeights>();
  const WeightSource* before = source.get();
  EXPECT_EQ(with_single_experts(std::move(source), config()).get(), before);
}

}  // namespace
}  // namespace reprise::weights
