#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/model_config.h"
#include "tests/support/weights/complete_config.h"

namespace reprise::weights {
namespace {

Json mistral4(const std::string& key, const Json& value) {
  Json config = complete_config("Mistral4ForCausalLM");
  config[key] = value;
  return config;
}

ModelConfig mistral4_model(const Json& config) {
  return parse_model_config(config.dump(), "config.json").config;
}

Json yarn(double partial_factor) {
  return {{"rope_type", "yarn"},
          {"factor", 4.0},
          {"original_max_position_embeddings", 64},
          {"llama_4_scaling_beta", 0.2},
          {"partial_rotary_factor", partial_factor}};
}

TEST(Mistral4, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"n_group", 2},
      {"attention_bias", true},
      {"qk_nope_head_dim", 15},
      {"num_experts_per_tok", 9},
      {"hidden_act", "relu"},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)mistral4_model(mistral4(key, value));
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(Mistral4, the_rotated_part_of_a_head_is_that_of_the_sizes) {
  // 8 of 24 elements.
  const ModelConfig config = mistral4_model(mistral4("rope_parameters", yarn(8.0 / 24)));
  EXPECT_EQ(config.rope.rotary_dim, 0);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.query_temperature, (AttentionTemperature{.scale = 0.2, .floor_positions = 64}));
  EXPECT_THROW((void)mistral4_model(mistral4("rope_parameters", yarn(0.5))), FileError);
}

TEST(Mistral4, has_the_defaults_and_the_parameters_of_its_class) {
  // The sizes of the class, and the number of parameters that Transformers 5.24 counts for them.
  const ModelConfig config =
      mistral4_model(Json::parse(R"({"architectures": ["Mistral4ForCausalLM"], "vocab_size": 131072,
        "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 2048,
        "num_hidden_layers": 36, "num_attention_heads": 32, "n_routed_experts": 128,
        "kv_lora_rank": 256, "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "v_head_dim": 128,
        "max_position_embeddings": 1048576})"));
  EXPECT_EQ(num_parameters(config), 118'972'826'624);
  EXPECT_EQ(config.moe->top_k, 4);
  EXPECT_TRUE(config.moe->renormalises);
  EXPECT_EQ(config.rope.type, RopeType::yarn);
  EXPECT_EQ(config.query_temperature,
            (AttentionTemperature{.scale = 0.1, .floor_positions = 8192}));
}

}  // namespace
}  // namespace reprise::weights
