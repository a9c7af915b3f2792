// Files of the models made after DeepSeek-V2. The expected values come from the formulas of
// llama.cpp's converter, inverted, and from the assumptions of its loader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/weights/gguf_architecture_fixture.h"

namespace reprise::weights::gguf {
namespace {

using GgufDeepSeek = GgufArchitectures;

GgufBytes mistral4_file(int64_t num_layers = 1) {
  GgufBytes file = file_of("mistral4", kDeepSeekKeys, num_layers);
  file.boolean("mistral4.expert_weights_norm", true);
  return file;
}

// A file with keys of eight elements, half of which rotate.
GgufBytes with_yarn(GgufBytes file, const std::string& architecture) {
  file.without(architecture + ".attention.key_length_mla")
      .integer(architecture + ".attention.key_length_mla", 8)
      .string(architecture + ".rope.scaling.type", "yarn")
      .real(architecture + ".rope.scaling.factor", 16)
      .integer(architecture + ".rope.scaling.original_context_length", 32)
      .real(architecture + ".rope.scaling.yarn_log_multiplier", 0.1F);
  return file;
}

TEST_F(GgufDeepSeek, with_sparse_attention_have_the_tensors_of_the_index) {
  for (const std::string name : {"deepseek32", "glm-dsa"}) {
    SCOPED_TRACE(name);
    GgufBytes file = file_of(name, kDeepSeekKeys + kIndexKeys);
    file.tensor("blk.0.indexer.attn_q_b.weight", 0, {12, 3}, bytes_of(counting(36, 0)))
        .tensor("blk.0.indexer.attn_k.weight", 0, {6, 8}, bytes_of(counting(48, 100)))
        .tensor("blk.0.indexer.k_norm.weight", 0, {6}, bytes_of(counting(6, 200)))
        .tensor("blk.0.indexer.k_norm.bias", 0, {6}, bytes_of(counting(6, 300)))
        .tensor("blk.0.indexer.proj.weight", 0, {2, 8}, bytes_of(counting(16, 400)));
    const ModelConfig config = config_of(file);
    EXPECT_EQ(config.mla->index,
              (PositionIndexConfig{
                  .num_heads = 2, .head_dim = 6, .top_k = 5, .is_interleaved = name == "glm-dsa"}));
    EXPECT_EQ(config.moe->scores, RouterScores::sigmoid_with_bias);
    const GgufWeights weights = weights_of(file);
    const std::string index = "model.layers.0.self_attn.indexer.";
    EXPECT_EQ(read(weights, index + "wq_b.weight", 36), counting(36, 0));
    EXPECT_EQ(read(weights, index + "wk.weight", 48), counting(48, 100));
    EXPECT_EQ(read(weights, index + "k_norm.weight", 6), counting(6, 200));
    EXPECT_EQ(read(weights, index + "k_norm.bias", 6), counting(6, 300));
    EXPECT_EQ(read(weights, index + "weights_proj.weight", 16), counting(16, 400));
    EXPECT_EQ(code_of_config(file_of(name, kDeepSeekKeys)), "E_CONFIG") << "no index";
    GgufBytes softmax = file;
    EXPECT_EQ(code_of_config(softmax.integer(name + ".expert_gating_func", 1)), "E_CONFIG");
    GgufBytes warm = file;
    EXPECT_EQ(code_of_config(warm.real(name + ".attention.temperature_scale", 0.1F)), "E_CONFIG");
  }
  GgufBytes without = file_of("deepseek2", kDeepSeekKeys);
  without.tensor("blk.0.indexer.attn_k.weight", 0, {6, 8}, bytes_of(counting(48, 0)));
  EXPECT_EQ(code_of_weights(without), "E_UNKNOWN");
}

TEST_F(GgufDeepSeek, of_glm_5_choose_positions_in_every_layer) {
  const auto file_with = [](const std::vector<uint8_t>& chooses) {
    GgufBytes file = file_of("glm-dsa", kDeepSeekKeys + kIndexKeys, 2);
    if (!chooses.empty()) file.numbers<uint8_t>("glm-dsa.attention.indexer.types", 7, chooses);
    return file;
  };
  EXPECT_EQ(config_of(file_with({1, 1})).num_hidden_layers, 2);
  EXPECT_EQ(code_of_config(file_with({1, 0})), "E_CONFIG");
  EXPECT_EQ(code_of_config(file_with({1})), "E_CONFIG");
  // Without the list, llama.cpp treats a file as GLM-5.2 if its context is this long.
  GgufBytes longer = file_with({});
  longer.without("glm-dsa.context_length").integer("glm-dsa.context_length", 1 << 20);
  EXPECT_EQ(code_of_config(longer), "E_CONFIG");
  longer.numbers<uint8_t>("glm-dsa.attention.indexer.types", 7, {1, 1});
  EXPECT_EQ(config_of(longer).max_position_embeddings, 1 << 20);
}

TEST_F(GgufDeepSeek, of_mistral_4_have_a_temperature_where_the_file_has_one) {
  const ModelConfig config = config_of(with_yarn(mistral4_file(), "mistral4"));
  EXPECT_EQ(config.moe->scores, RouterScores::softmax);
  EXPECT_TRUE(config.moe->renormalises);
  EXPECT_EQ(config.query_temperature, std::nullopt);
  EXPECT_TRUE(config.rope.is_interleaved);
  EXPECT_EQ(config.rope.attention_factor, 1.0);
  const double magnitude = 1 + 0.1 * std::log(16);
  EXPECT_NEAR(*config.attention_scale, magnitude * magnitude / std::sqrt(8), 1e-6);
  const auto with_temperature = [](uint32_t length) {
    GgufBytes file = with_yarn(mistral4_file(), "mistral4");
    file.real("mistral4.attention.temperature_scale", 0.5F)
        .integer("mistral4.attention.temperature_length", length);
    return file;
  };
  EXPECT_EQ(config_of(with_temperature(32)).query_temperature,
            (AttentionTemperature{.scale = 0.5, .floor_positions = 32}));
  EXPECT_EQ(code_of_config(with_temperature(64)), "E_CONFIG");
  GgufBytes plain = mistral4_file();
  plain.real("mistral4.attention.temperature_scale", 0.5F);
  EXPECT_EQ(code_of_config(plain), "E_CONFIG") << "no YaRN";
  GgufBytes sigmoid = mistral4_file();
  EXPECT_EQ(code_of_config(sigmoid.integer("mistral4.expert_gating_func", 2)), "E_CONFIG");
}

TEST_F(GgufDeepSeek, of_mistral_4_say_that_queries_do_not_grow) {
  const auto warnings = [&](const GgufBytes& file, const Json& overrides = Json::object()) {
    return open(file)->config(overrides).warnings;
  };
  const GgufBytes file = with_yarn(mistral4_file(), "mistral4");
  ASSERT_EQ(warnings(file).size(), 1U);
  EXPECT_THAT(warnings(file)[0], testing::HasSubstr("mistral4.attention.temperature_scale"));
  EXPECT_TRUE(warnings(file, {{"rope_scaling", {{"llama_4_scaling_beta", 0.1}}}}).empty());
  GgufBytes given = file;
  EXPECT_TRUE(warnings(given.real("mistral4.attention.temperature_scale", 0)).empty());
}

// Files of Mistral Large 3, which are converted from another checkpoint format.
TEST_F(GgufDeepSeek, with_softmax_scores_that_sum_to_one_are_of_mistral_4) {
  GgufBytes file = with_yarn(file_of("deepseek2", kDeepSeekKeys), "deepseek2");
  EXPECT_EQ(config_of(file).architecture, Architecture::deepseek_v2);
  file.boolean("deepseek2.expert_weights_norm", true)
      .real("deepseek2.attention.temperature_scale", 0.1F)
      .integer("deepseek2.attention.temperature_length", 32);
  const ModelConfig config = config_of(file);
  EXPECT_EQ(config.architecture, Architecture::mistral4);
  EXPECT_NEAR(config.query_temperature->scale, 0.1, 1e-7);
  EXPECT_EQ(code_of_config(file.integer("deepseek2.expert_gating_func", 2)), "E_CONFIG");
}

TEST_F(GgufDeepSeek, may_have_gate_and_up_of_all_experts_in_one_tensor) {
  GgufBytes file = mistral4_file(2);
  file.tensor("blk.1.ffn_gate_up_exps.weight", 0, {4, 12, 8}, bytes_of(counting(384, 0)))
      .tensor("blk.1.ffn_down_exps.weight", 0, {4, 8, 6}, bytes_of(counting(192, 1000)));
  const GgufWeights weights = weights_of(file);
  const std::string expert = "model.layers.1.mlp.experts.2.";
  EXPECT_EQ(read(weights, expert + "gate_proj.weight", 48), counting(48, 2 * 96));
  EXPECT_EQ(read(weights, expert + "up_proj.weight", 48), counting(48, 2 * 96 + 48));
  EXPECT_EQ(read(weights, expert + "down_proj.weight", 48), counting(48, 1000 + 2 * 48));
  EXPECT_EQ(weights.stored_bytes(expert + "up_proj.weight"), 48U * 4);
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{4, 11, 8}, {3, 12, 8}, {48, 8}}) {
    GgufBytes wrong = mistral4_file(2);
    uint64_t count = 1;
    for (const uint64_t extent : shape) count *= extent;
    wrong.tensor("blk.1.ffn_gate_up_exps.weight", 0, shape, bytes_of(counting(count, 0)));
    EXPECT_EQ(code_of_weights(wrong), "E_SHAPE") << shape[0];
  }
}

class GgufKimi : public GgufArchitectures {
 protected:
  /// A layer of delta attention, then one of latent attention.
  static GgufBytes file() {
    Keys keys = kDeepSeekKeys;
    GgufBytes file =
        file_of("kimi-linear", keys + Keys{{"ssm.conv_kernel", 4}, {"kda.head_dim", 3}}, 2);
    file.numbers<uint32_t>("kimi-linear.attention.head_count_kv", 4, {0, 1})
        .integer("kimi-linear.expert_gating_func", 2);
    return file;
  }
};

TEST_F(GgufKimi, has_layers_of_delta_attention_where_there_are_no_keys) {
  const ModelConfig config = config_of(file());
  EXPECT_EQ(config.architecture, Architecture::kimi_linear);
  EXPECT_EQ(config.layer_types,
            (std::vector{LayerType::linear_attention, LayerType::full_attention}));
  EXPECT_EQ(config.recurrent->num_heads, 2);
  EXPECT_EQ(config.recurrent->head_dim, 3);
  EXPECT_EQ(config.recurrent->conv_kernel, 4);
  EXPECT_EQ(config.max_position_embeddings, 64);
  EXPECT_EQ(config.moe->top_k, 2);
  EXPECT_TRUE(config.moe->renormalises);
  EXPECT_FALSE(config.is_moe_layer(0));
  EXPECT_TRUE(config.is_moe_layer(1));
  EXPECT_EQ(code_of_config(file_of("kimi-linear", kDeepSeekKeys)), "E_CONFIG");
}

TEST_F(GgufKimi, has_the_tensors_of_both_kinds_of_layers) {
  GgufBytes file = this->file();
  file.tensor("blk.0.attn_q.weight", 0, {6, 8}, bytes_of(counting(48, 0)))
      .tensor("blk.0.ssm_conv1d_k.weight", 0, {1, 6, 1, 4}, bytes_of(counting(24, 7)))
      .tensor("blk.0.ssm_a", 0, {1, 1, 2, 1}, bytes_of({-1, -4}))
      .tensor("blk.0.ssm_dt.bias", 0, {6}, bytes_of(counting(6, 5)))
      .tensor("blk.0.ssm_f_a.weight", 0, {3, 8}, bytes_of(counting(24, 100)))
      .tensor("blk.0.ssm_g_b.weight", 0, {6, 3}, bytes_of(counting(18, 200)))
      .tensor("blk.0.ssm_beta.weight", 0, {2, 8}, bytes_of(counting(16, 300)))
      .tensor("blk.0.ssm_norm.weight", 0, {3}, bytes_of(counting(3, 400)))
      .tensor("blk.1.attn_q.weight", 0, {14, 8}, bytes_of(counting(112, 500)))
      .tensor("blk.1.exp_probs_b.bias", 0, {4}, bytes_of(counting(4, 600)))
      .tensor("blk.1.ffn_up_exps.weight", 0, {4, 6, 8}, bytes_of(counting(192, 700)))
      .tensor("blk.1.ffn_up_shexp.weight", 0, {6, 8}, bytes_of(counting(48, 900)));
  const GgufWeights weights = weights_of(file);
  const std::string delta = "model.layers.0.self_attn.";
  EXPECT_EQ(read(weights, delta + "q_proj.weight", 48), counting(48, 0));
  EXPECT_EQ(read(weights, delta + "k_conv1d.weight", 24), counting(24, 7));
  EXPECT_EQ(weights.find(delta + "k_conv1d.weight")->shape, (std::vector<int64_t>{6, 1, 4}));
  const Floats logs = read(weights, delta + "A_log", 2);
  EXPECT_NEAR(logs[0], 0, 1e-6);
  EXPECT_NEAR(logs[1], std::log(4), 1e-6);
  EXPECT_EQ(weights.find(delta + "A_log")->shape, (std::vector<int64_t>{1, 1, 2, 1}));
  EXPECT_EQ(read(weights, delta + "dt_bias", 6), counting(6, 5));
  EXPECT_EQ(read(weights, delta + "f_a_proj.weight", 24), counting(24, 100));
  EXPECT_EQ(read(weights, delta + "g_b_proj.weight", 18), counting(18, 200));
  EXPECT_EQ(read(weights, delta + "b_proj.weight", 16), counting(16, 300));
  EXPECT_EQ(read(weights, delta + "o_norm.weight", 3), counting(3, 400));
  EXPECT_EQ(read(weights, "model.layers.1.self_attn.q_proj.weight", 112), counting(112, 500));
  const std::string experts = "model.layers.1.block_sparse_moe.";
  EXPECT_EQ(read(weights, experts + "gate.e_score_correction_bias", 4), counting(4, 600));
  EXPECT_EQ(read(weights, experts + "experts.1.w3.weight", 48), counting(48, 748));
  EXPECT_EQ(read(weights, experts + "shared_experts.up_proj.weight", 48), counting(48, 900));
}

TEST_F(GgufDeepSeek, tell_of_layers_that_predict_further_ahead) {
  GgufBytes file = file_of("deepseek32", kDeepSeekKeys + kIndexKeys, 3);
  EXPECT_TRUE(open(file)->config().warnings.empty());
  file.integer("deepseek32.nextn_predict_layers", 1)
      .tensor("blk.2.nextn.eh_proj.weight", 0, {8, 16}, bytes_of(counting(128, 0)))
      .tensor("blk.2.attn_norm.weight", 0, {8}, bytes_of(counting(8, 0)));
  const LoadedModelConfig loaded = open(file)->config();
  EXPECT_EQ(loaded.config.num_hidden_layers, 2);
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_THAT(loaded.warnings[0],
              testing::HasSubstr("1 of 3 layers predict tokens further ahead (MTP)"));
  EXPECT_EQ(weights_of(file).names().size(), 1U) << "only the embedding";
}

}  // namespace
}  // namespace reprise::weights::gguf
