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

Json step(const std::string& key, const Json& value) {
  Json config = complete_config("Step3p5ForCausalLM");
  config[key] = value;
  return config;
}

ModelConfig step_model(const Json& config) {
  return parse_model_config(config.dump(), "config.json").config;
}

TEST(Step, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"use_head_wise_attn_gate", false},
      {"use_qk_norm", false},
      {"norm_expert_weight", false},
      {"sink", true},
      {"mlp_bias", true},
      {"hidden_act", "gelu"},
      {"moe_router_activation", "softmax"},
      {"num_key_value_heads", 3},
      {"head_dim", 15},
      {"layer_types", {"full_attention", "full_attention"}},
      {"moe_layers_enum", "3,9"},
      {"moe_layers_enum", "3,x"},
      {"swiglu_limits", {0, 0, 0}},
      {"swiglu_limits", {0, 0, 0, -1}},
      {"swiglu_limits_shared", {0, 0, 0, "7"}},
      {"query_pre_attn_scalar", 0},
      {"share_expert_dim", 0},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)step_model(step(key, value));
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(Step, members_of_inner_objects_are_refused_by_name) {
  const auto field_of = [](const Json& config) {
    try {
      (void)step_model(config);
    } catch (const FileError& error) {
      return error.field();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(field_of(step("attention_other_setting", {{"head_dim", 64}})),
            "attention_other_setting.head_dim");
  EXPECT_EQ(field_of(step("per_layer_config", {{"1", {{"num_attention_heads", 8}}}})),
            "per_layer_config.1");
  EXPECT_EQ(
      field_of(step(
          "rope_scaling",
          {{"rope_type", "linear"}, {"factor", 2.0}, {"yarn_only_types", {"sliding_attention"}}})),
      "rope_scaling.yarn_only_types");
}

// The members of the published configs of Step 3.5, whose lists have entries for three more layers.
Json published_step() {
  Json config = {{"architectures", {"Step3p5ForCausalLM"}},
                 {"model_type", "step3p5"},
                 {"hidden_size", 4096},
                 {"intermediate_size", 11264},
                 {"num_hidden_layers", 45},
                 {"num_nextn_predict_layers", 3},
                 {"vocab_size", 128896},
                 {"num_attention_heads", 64},
                 {"num_attention_groups", 8},
                 {"head_dim", 128},
                 {"attention_other_setting",
                  {{"attention_type", "sliding_attention"},
                   {"num_attention_heads", 96},
                   {"num_attention_groups", 8},
                   {"head_dim", 128}}},
                 {"max_position_embeddings", 262144},
                 {"moe_num_experts", 288},
                 {"moe_top_k", 8},
                 {"moe_intermediate_size", 1280},
                 {"share_expert_dim", 1280},
                 {"moe_router_scaling_factor", 3.0},
                 {"use_head_wise_attn_gate", true},
                 {"sliding_window", 512},
                 {"rope_scaling",
                  {{"rope_type", "llama3"},
                   {"factor", 2.0},
                   {"original_max_position_embeddings", 131072},
                   {"low_freq_factor", 1.0},
                   {"high_freq_factor", 32.0},
                   {"yarn_only_types", {"full_attention"}}}}};
  std::string experts;
  for (int layer = 3; layer < 45; ++layer)
    experts += (layer == 3 ? "" : ",") + std::to_string(layer);
  config["moe_layers_enum"] = experts;
  for (int layer = 0; layer < 48; ++layer) {
    const bool is_full = layer % 4 == 0;
    config["layer_types"].push_back(is_full ? "full_attention" : "sliding_attention");
    config["rope_theta"].push_back(is_full ? 5e6 : 1e4);
    config["partial_rotary_factors"].push_back(is_full ? 0.5 : 1.0);
    config["swiglu_limits"].push_back(layer == 43 || layer == 44 ? 7.0 : 0.0);
    config["swiglu_limits_shared"].push_back(layer == 44 ? 16.0 : 0.0);
  }
  return config;
}

TEST(Step, has_the_parameters_of_its_class) {
  const ModelConfig config = step_model(published_step());
  EXPECT_EQ(num_parameters(config), 196'956'130'368);
  EXPECT_EQ(config.query_heads_of_layer(0), 64);
  EXPECT_EQ(config.query_heads_of_layer(1), 96);
  EXPECT_EQ(config.rope.theta, 5e6);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rope.type, RopeType::llama3);
  EXPECT_EQ(config.sliding_rope->theta, 1e4);
  EXPECT_EQ(config.sliding_rope->type, RopeType::standard);
  EXPECT_EQ(config.moe->limit_of_layer(43), 7);
  EXPECT_EQ(config.mlp_limit_of_layer(43), 0);
  EXPECT_EQ(config.mlp_limit_of_layer(44), 16);
  EXPECT_FALSE(config.is_moe_layer(2));
  EXPECT_TRUE(config.is_moe_layer(3));
  EXPECT_EQ(config.moe->top_k, 8);
}

}  // namespace
}  // namespace reprise::weights
