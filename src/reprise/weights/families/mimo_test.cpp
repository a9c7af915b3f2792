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

Json mimo(const std::string& key, const Json& value) {
  Json config = complete_config("MiMoV2FlashForCausalLM");
  config[key] = value;
  return config;
}

ModelConfig mimo_model(const Json& config) {
  return parse_model_config(config.dump(), "config.json").config;
}

TEST(MimoV2, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"num_key_value_heads", 4},  // eight in windows, of four heads
      {"v_head_dim", 200},
      {"v_head_dim", 0},
      {"swa_num_attention_heads", 2},
      {"swa_num_key_value_heads", 2},
      {"swa_head_dim", 64},
      {"swa_v_head_dim", 8},
      {"n_shared_experts", 1},
      {"add_swa_attention_sink_bias", false},
      {"add_full_attention_sink_bias", true},
      {"scoring_func", "softmax"},
      {"topk_method", "greedy"},
      {"hybrid_layer_pattern", {0, 1, 2, 0}},
      {"hybrid_layer_pattern", {0, 1}},
      {"moe_layer_freq", {0, 1}},
      {"moe_layer_freq", {0, 1, 2, 1}},
      {"mlp_layer_types", {"dense", "sparse", "other", "dense"}},
      {"attention_value_scale", "half"},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)mimo_model(mimo(key, value));
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(MimoV2, layers_with_a_window_have_twice_the_key_value_heads_and_sinks) {
  const ModelConfig config = mimo_model(mimo("hybrid_layer_pattern", {1, 0, 1, 0}));
  EXPECT_EQ(config.heads_of_layer(0), (KeyValueHeads{.count = 4, .head_dim = 192}));
  EXPECT_EQ(config.heads_of_layer(1), (KeyValueHeads{.count = 2, .head_dim = 192}));
  EXPECT_TRUE(config.has_sinks(0));
  EXPECT_FALSE(config.has_sinks(1));
}

TEST(MimoV2, sliding_window_size_does_not_count_the_token_itself) {
  EXPECT_EQ(mimo_model(mimo("sliding_window_size", 128)).sliding_window, 129);
  EXPECT_EQ(mimo_model(mimo("sliding_window", 128)).sliding_window, 128);
}

TEST(MimoV2, a_list_says_which_layers_have_experts) {
  const std::vector<bool> layers = {false, true, false, true};
  EXPECT_EQ(mimo_model(mimo("moe_layer_freq", {0, 1, 0, 1})).moe_layers, layers);
  EXPECT_EQ(mimo_model(mimo("mlp_layer_types", {"dense", "sparse", "dense", "sparse"})).moe_layers,
            layers);
}

TEST(MimoV2, has_the_parameters_of_its_class) {
  // The members of the published config from which sizes follow, and the number of parameters and
  // biases that Transformers 5.24 counts with the class's values.
  const ModelConfig config =
      mimo_model(Json::parse(R"({"architectures": ["MiMoV2FlashForCausalLM"], "vocab_size": 152576,
        "hidden_size": 4096, "intermediate_size": 16384, "moe_intermediate_size": 2048,
        "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 192, "v_head_dim": 128, "swa_num_key_value_heads": 8, "swa_head_dim": 192,
        "n_routed_experts": 256, "n_shared_experts": null, "routed_scaling_factor": null,
        "sliding_window_size": 128, "layernorm_epsilon": 1e-05, "rope_theta": 5000000,
        "swa_rope_theta": 10000, "partial_rotary_factor": 0.334, "attention_bias": false,
        "max_position_embeddings": 262144})"));
  EXPECT_EQ(num_parameters(config), 308'778'780'864);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.sliding_rope->theta, 1e4);
  EXPECT_EQ(config.value_scale, 0.707);
  EXPECT_EQ(config.layer_types[6], LayerType::sliding_attention);
  EXPECT_EQ(config.layer_types[5], LayerType::full_attention);
}

}  // namespace
}  // namespace reprise::weights
