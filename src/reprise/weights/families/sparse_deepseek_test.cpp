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

ModelConfig sparse_model(const Json& config) {
  return parse_model_config(config.dump(), "config.json").config;
}

Json glm5(const std::string& key, const Json& value) {
  Json config = complete_config("GlmMoeDsaForCausalLM");
  config[key] = value;
  return config;
}

TEST(SparseDeepseek, members_that_no_code_serves_are_refused_by_name) {
  const std::vector<std::pair<std::string, Json>> rows = {
      {"index_topk", 4096},
      {"index_topk", 0},
      {"index_head_dim", 8},  // no more than the part that rotates
      {"index_n_heads", 256},
      {"q_lora_rank", nullptr},
      {"indexer_types", {"full", "shared", "full", "full"}},
      {"indexer_types", {"full"}},
      {"layer_types",
       {"full_attention", "indexed_attention", "indexed_attention", "full_attention"}},
      {"index_topk_freq", 4},
      {"index_topk_pattern", "FFSS"},
      {"index_topk_pattern", {"full", "full", "full", "full"}},
      {"attention_bias", true},
  };
  for (const auto& [key, value] : rows) {
    try {
      (void)sparse_model(glm5(key, value));
      ADD_FAILURE() << key << " " << value.dump() << " is accepted";
    } catch (const FileError& error) {
      EXPECT_EQ(error.field(), key) << value.dump();
    }
  }
}

TEST(SparseDeepseek, a_row_of_the_cache_has_the_index_key_too) {
  const LatentAttentionConfig mla = *sparse_model(glm5("index_head_dim", 20)).mla;
  EXPECT_EQ(mla.key_size(), 40);
  EXPECT_EQ(mla.cache_row_size(), 60);
}

TEST(SparseDeepseek, only_the_indexer_of_glm_5_rotates_neighbours) {
  EXPECT_TRUE(sparse_model(complete_config("GlmMoeDsaForCausalLM")).mla->index->is_interleaved);
  const ModelConfig config = sparse_model(complete_config("DeepseekV32ForCausalLM"));
  EXPECT_FALSE(config.mla->index->is_interleaved);
  EXPECT_TRUE(config.rope.is_interleaved);
}

TEST(SparseDeepseek, has_the_defaults_and_the_parameters_of_its_class) {
  // The sizes of GLM-5, and the number of parameters and biases that Transformers 5.24 counts.
  const ModelConfig config = sparse_model(Json::parse(R"({"architectures": ["GlmMoeDsaForCausalLM"],
        "vocab_size": 154880, "hidden_size": 6144, "intermediate_size": 12288,
        "moe_intermediate_size": 2048, "num_hidden_layers": 78, "num_attention_heads": 64,
        "n_routed_experts": 256, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 256,
        "qk_nope_head_dim": 192, "max_position_embeddings": 202752})"));
  EXPECT_EQ(num_parameters(config), 743'911'218'432);
  EXPECT_EQ(config.mla->index,
            (PositionIndexConfig{
                .num_heads = 32, .head_dim = 128, .top_k = 2048, .is_interleaved = true}));
  EXPECT_EQ(config.moe->routed_scale, 2.5);
  EXPECT_EQ(config.norm_eps, 1e-5);
  EXPECT_FALSE(config.is_moe_layer(2));
  EXPECT_TRUE(config.is_moe_layer(3));
}

}  // namespace
}  // namespace reprise::weights
