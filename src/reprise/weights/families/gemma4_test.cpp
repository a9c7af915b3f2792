#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/model_config.h"
#include "tests/support/weights/complete_config.h"

namespace reprise::weights {
namespace {

Json gemma4(const std::vector<std::pair<const char*, Json>>& members = {}) {
  Json config = complete_config("Gemma4ForCausalLM");
  for (const auto& [key, value] : members) config[key] = value;
  return config;
}
ModelConfig gemma4_config(const Json& json) {
  return parse_model_config(json.dump(), "config.json").config;
}
std::string gemma4_refusal(const Json& json) {
  try {
    (void)gemma4_config(json);
  } catch (const FileError& error) {
    return error.field();
  }
  return "";
}

TEST(Gemma4, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"num_kv_shared_layers", 4},
      {"num_kv_shared_layers", 1},  // only the last layer is a full layer
      {"vocab_size_per_layer_input", 50},
      {"use_bidirectional_attention", "all"},
      {"global_head_dim", 33},
      {"per_layer_config", {{"0", {{"head_dim", 32}}}}},
      {"per_layer_config", {{"3", {{"num_attention_heads", 2}}}}},
      {"per_layer_config", {{"3", 7}}},
      {"per_layer_config", Json::array()},
      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
      {"hidden_activation", "relu2"},
  };
  for (const auto& [key, value] : rows) {
    EXPECT_EQ(gemma4_refusal(gemma4({{key.c_str(), value}})), key) << value.dump();
  }
  EXPECT_EQ(gemma4_refusal(gemma4({{"enable_moe_block", true}})), "top_k_experts");
  EXPECT_EQ(gemma4_refusal(gemma4({{"rope_parameters", {{"full_attention", Json::object()}}}})),
            "rope_parameters.sliding_attention");
  EXPECT_EQ(gemma4_refusal(gemma4({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}})),
            "num_global_key_value_heads");
}

TEST(Gemma4, full_layers_have_heads_of_their_own_in_both_spellings) {
  const KeyValueHeads of_windows{.count = 2, .head_dim = 16};
  const KeyValueHeads of_full{.count = 1, .head_dim = 32};
  const std::vector<std::vector<std::pair<const char*, Json>>> spellings = {
      {{"global_head_dim", 32}, {"num_global_key_value_heads", 1}, {"attention_k_eq_v", true}},
      {{"per_layer_config", {{"3", {{"head_dim", 32}, {"num_key_value_heads", 1}}}}}}};
  for (auto members : spellings) {
    members.emplace_back("head_dim", 16);
    const ModelConfig config = gemma4_config(gemma4(members));
    EXPECT_EQ(config.heads_of_layer(2), of_windows);
    EXPECT_EQ(config.heads_of_layer(3), of_full);
  }
  // If keys and values share no projection, the class does not read the number.
  const ModelConfig plain = gemma4_config(gemma4({{"num_global_key_value_heads", 1}}));
  EXPECT_EQ(plain.heads_of_layer(3), (KeyValueHeads{.count = 2, .head_dim = 512}));
  EXPECT_FALSE(gemma4_config(gemma4({{"per_layer_config", Json::object()}})).full_heads);
}

TEST(Gemma4, the_last_layers_read_the_keys_of_the_last_layer_of_their_type) {
  const char* const sliding = "sliding_attention";
  const char* const full = "full_attention";
  const ModelConfig config =
      gemma4_config(gemma4({{"num_hidden_layers", 6},
                            {"num_kv_shared_layers", 3},
                            {"use_double_wide_mlp", true},
                            {"layer_types", {sliding, full, sliding, full, sliding, full}}}));
  const std::vector<int64_t> layers = {0, 1, 2, 1, 2, 1};
  for (int64_t layer = 0; layer < 6; ++layer) {
    SCOPED_TRACE(layer);
    EXPECT_EQ(config.kv_layer_of(layer), layers[static_cast<size_t>(layer)]);
    EXPECT_EQ(config.cache_index(layer), layers[static_cast<size_t>(layer)]);
    EXPECT_EQ(config.intermediate_size_of_layer(layer), layer < 3 ? 128 : 256);
  }
  EXPECT_EQ(config.num_attention_layers(), 3);
}

TEST(Gemma4, a_proportional_rotation_leaves_the_last_pairs_of_a_head) {
  const RopeParameters rope = gemma4_config(gemma4({{"global_head_dim", 20}})).rope;
  EXPECT_EQ(rope.type, RopeType::factors);
  EXPECT_EQ(rope.theta, 1e6);
  // A quarter of ten pairs is rounded down to two.
  ASSERT_EQ(rope.frequency_factors.size(), 10U);
  for (size_t pair = 0; pair < 10; ++pair) {
    EXPECT_EQ(std::isinf(rope.frequency_factors[pair]), pair >= 2) << pair;
  }
}

TEST(Gemma4, the_last_layer_is_a_full_one) {
  const LoadedModelConfig loaded = parse_model_config(gemma4().dump(), "config.json");
  EXPECT_EQ(loaded.config.window_of_layer(2), 512);
  EXPECT_FALSE(loaded.config.window_of_layer(3));
  EXPECT_EQ(loaded.warnings.size(), 1U);
}

TEST(Gemma4, has_the_parameters_of_its_classes) {
  // Sizes of published models, and the number of parameters and of factors of layers that
  // Transformers 5.24 counts. Layers that read the keys of other layers have no keys of their own.
  const char* const common = R"("max_position_embeddings": 131072, "vocab_size": 262144)";
  const std::vector<std::pair<std::string, int64_t>> classes = {
      {R"({"architectures": ["Gemma4ForCausalLM"], "hidden_size": 1536, "intermediate_size": 6144,
           "num_hidden_layers": 35, "num_attention_heads": 8, "num_key_value_heads": 1,
           "num_kv_shared_layers": 20, "use_double_wide_mlp": true, "layer_types": [)",
       4'628'569'379},
      {R"({"architectures": ["Gemma4ForCausalLM"], "hidden_size": 2816, "intermediate_size": 2112,
           "num_hidden_layers": 30, "num_attention_heads": 16, "num_key_value_heads": 8,
           "num_global_key_value_heads": 2, "attention_k_eq_v": true, "enable_moe_block": true,
           "hidden_size_per_layer_input": 0, "num_experts": 128, "top_k_experts": 8,
           "moe_intermediate_size": 704, )",
       25'233'141'790},
      {R"({"architectures": ["Gemma4UnifiedForCausalLM"], "hidden_size": 2304,
           "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
           "num_key_value_heads": 4, )",
       3'010'758'430}};
  for (auto [text, parameters] : classes) {
    SCOPED_TRACE(text);
    if (text.ends_with("[")) {
      for (int layer = 0; layer < 35; ++layer) {
        text += layer % 5 == 4 ? R"("full_attention")" : R"("sliding_attention")";
        text += layer == 34 ? "], " : ", ";
      }
    }
    const ModelConfig config = parse_model_config(text + common + "}", "config.json").config;
    EXPECT_EQ(num_parameters(config), parameters);
  }
}

}  // namespace
}  // namespace reprise::weights
