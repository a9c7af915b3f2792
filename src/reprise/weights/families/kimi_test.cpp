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

Json kimi(const std::string& key, const Json& value) {
  Json config = complete_config("KimiLinearForCausalLM");
  config[key] = value;
  return config;
}

ModelConfig kimi_model(const Json& config) {
  return parse_model_config(config.dump(), "config.json").config;
}

TEST(KimiLinear, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"mla_use_nope", false},
      {"use_grouped_topk", false},
      {"moe_router_activation_func", "softmax"},
      {"rope_scaling", {{"type", "yarn"}, {"factor", 2.0}}},
      {"num_nextn_predict_layers", 1},
      {"hidden_act", "gelu"},
      {"layer_types", {"full_attention"}},
      {"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}},
      {"num_experts", 0},
      {"num_expert_group", 3},
      {"num_experts_per_token", 9},
      {"linear_head_dim", 0},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)kimi_model(kimi(key, value));
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(KimiLinear, older_configs_count_layers_from_one) {
  const Json layers = {{"full_attn_layers", {2, 4}}, {"kda_layers", {1, 3}}};
  const std::vector<LayerType> types = {LayerType::linear_attention,
                                        LayerType::full_attention,
                                        LayerType::linear_attention,
                                        LayerType::full_attention};
  EXPECT_EQ(kimi_model(kimi("linear_attn_config", layers)).layer_types, types);
  const Json too_few = {{"full_attn_layers", {2, 4}}, {"kda_layers", {1}}};
  EXPECT_THROW((void)kimi_model(kimi("linear_attn_config", too_few)), FileError);
}

TEST(KimiLinear, has_the_parameters_of_its_class) {
  // The members of the published config from which sizes follow, and the number of parameters and
  // biases that Transformers 5.24 counts for them.
  Json config = {{"architectures", {"KimiLinearForCausalLM"}},
                 {"vocab_size", 163840},
                 {"hidden_size", 2304},
                 {"intermediate_size", 9216},
                 {"moe_intermediate_size", 1024},
                 {"num_hidden_layers", 27},
                 {"num_attention_heads", 32},
                 {"num_experts", 256},
                 {"num_experts_per_token", 8},
                 {"num_shared_experts", 1},
                 {"kv_lora_rank", 512},
                 {"q_lora_rank", nullptr},
                 {"qk_nope_head_dim", 128},
                 {"qk_rope_head_dim", 64},
                 {"v_head_dim", 128},
                 {"mla_use_nope", true},
                 {"model_max_length", 1048576},
                 {"linear_attn_config",
                  {{"head_dim", 128}, {"num_heads", 32}, {"short_conv_kernel_size", 4}}}};
  for (int layer = 1; layer <= 27; ++layer) {
    const bool is_full = layer % 4 == 0 || layer == 27;
    config["linear_attn_config"][is_full ? "full_attn_layers" : "kda_layers"].push_back(layer);
  }
  const ModelConfig model = kimi_model(config);
  EXPECT_EQ(num_parameters(model), 49'122'681'728);
  EXPECT_EQ(model.num_recurrent_layers(), 20);
  EXPECT_EQ(model.max_position_embeddings, 1048576);
  EXPECT_FALSE(model.rotates(3));
  EXPECT_EQ(model.moe->routed_scale, 2.446);
}

}  // namespace
}  // namespace reprise::weights
