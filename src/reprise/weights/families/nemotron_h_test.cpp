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

Json nemotron(const std::string& key, const Json& value) {
  Json config = complete_config("NemotronHForCausalLM");
  config[key] = value;
  return config;
}

TEST(NemotronH, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"hybrid_override_pattern", "M*X-"},
      {"hybrid_override_pattern", ""},
      {"hybrid_override_pattern", "-E"},
      {"layers_block_type", {"mamba", "window"}},
      {"layers_block_type", Json::array()},
      {"mamba_proj_bias", true},
      {"mamba_hidden_act", "gelu"},
      {"n_groups", 3},
      {"attention_bias", true},
      {"mlp_bias", true},
      {"mlp_hidden_act", "silu"},
      {"moe_shared_expert_intermediate_size", nullptr},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)parse_model_config(nemotron(key, value).dump(), "config.json");
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(NemotronH, each_layer_is_one_block_in_both_spellings) {
  for (const Json& config :
       {nemotron("hybrid_override_pattern", "M-*E"),
        nemotron("layers_block_type", {"mamba", "mlp", "full_attention", "moe"})}) {
    const ModelConfig model = parse_model_config(config.dump(), "config.json").config;
    EXPECT_TRUE(model.is_recurrent_layer(0) && !model.has_feed_forward(0));
    EXPECT_TRUE(model.has_feed_forward(1) && !model.has_attention(1) && !model.is_moe_layer(1));
    EXPECT_TRUE(model.has_attention(2) && !model.has_feed_forward(2));
    EXPECT_TRUE(model.has_feed_forward(3) && !model.has_attention(3) && model.is_moe_layer(3));
    EXPECT_EQ(model.num_attention_layers(), 1);
    EXPECT_EQ(model.cache_index(2), 0);
    EXPECT_EQ(model.activation, Activation::relu2);
  }
}

TEST(NemotronH, the_pattern_counts_the_layers) {
  const auto loaded =
      parse_model_config(nemotron("hybrid_override_pattern", "M*").dump(), "config.json");
  EXPECT_EQ(loaded.config.num_hidden_layers, 2);
  EXPECT_EQ(loaded.warnings.size(), 1U);
}

TEST(NemotronH, has_the_parameters_of_its_class) {
  // Sizes of published models, and the number of parameters and biases that Transformers 5.24
  // counts.
  const std::vector<std::pair<const char*, int64_t>> classes = {
      {R"({"architectures": ["NemotronHForCausalLM"], "hidden_size": 2688, "vocab_size": 131072,
           "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
           "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
           "intermediate_size": 1856, "mamba_num_heads": 64, "mamba_head_dim": 64,
           "ssm_state_size": 128, "n_groups": 8, "n_routed_experts": 128, "n_shared_experts": 1,
           "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712,
           "num_experts_per_tok": 6, "routed_scaling_factor": 2.5, "max_position_embeddings": 4096})",
       31'577'940'288},
      {R"({"architectures": ["NemotronHForCausalLM"], "hidden_size": 4096, "vocab_size": 131072,
           "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
           "num_attention_heads": 32, "num_key_value_heads": 8, "attention_head_dim": 128,
           "intermediate_size": 21504, "mamba_num_heads": 128, "mamba_head_dim": 64,
           "ssm_state_size": 128, "n_groups": 8, "max_position_embeddings": 8192})",
       8'100'852'736}};
  for (const auto& [text, parameters] : classes) {
    SCOPED_TRACE(text);
    EXPECT_EQ(num_parameters(parse_model_config(text, "config.json").config), parameters);
  }
}

}  // namespace
}  // namespace reprise::weights
