// Files of models in which layers with a window differ from the others. The expected values are
// what llama.cpp's converter writes and its loader assumes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/weights/gguf_architecture_fixture.h"

namespace reprise::weights::gguf {
namespace {

const Keys kWindowKeys = {{"expert_count", 4},
                          {"expert_used_count", 2},
                          {"expert_feed_forward_length", 6},
                          {"attention.key_length", 8},
                          {"attention.sliding_window", 5}};

class GgufMimo2 : public GgufArchitectures {
 protected:
  /// A layer without a window and two layers with one, the last of which has experts.
  static GgufBytes file(const std::vector<uint32_t>& heads = {1, 2, 2}) {
    GgufBytes file = file_of(
        "mimo2", kWindowKeys + Keys{{"attention.value_length", 6}, {"rope.dimension_count", 4}}, 3);
    file.numbers<int32_t>("mimo2.attention.sliding_window_pattern", 5, {0, 1, 1})
        .numbers<uint32_t>("mimo2.attention.head_count_kv", 4, heads)
        .real("mimo2.rope.freq_base", 5000)
        .real("mimo2.rope.freq_base_swa", 100)
        .real("mimo2.attention.value_scale", 0.5F)
        .tensor("blk.2.ffn_gate_inp.weight", 0, {4, 8}, bytes_of(counting(32, 3)));
    return file;
  }
};

TEST_F(GgufMimo2, has_twice_the_heads_in_windows) {
  const ModelConfig config = config_of(file());
  EXPECT_EQ(config.architecture, Architecture::mimo_v2);
  EXPECT_EQ(
      config.layer_types,
      (std::vector{
          LayerType::full_attention, LayerType::sliding_attention, LayerType::sliding_attention}));
  EXPECT_EQ(config.sliding_window, 5);
  EXPECT_EQ(config.heads_of_layer(0), (KeyValueHeads{.count = 1, .head_dim = 8}));
  EXPECT_EQ(config.heads_of_layer(1), (KeyValueHeads{.count = 2, .head_dim = 8}));
  EXPECT_EQ(config.value_head_dim, 6);
  EXPECT_EQ(config.value_scale, 0.5);
  EXPECT_EQ(config.rope.theta, 5000);
  EXPECT_EQ(config.rope.rotary_dim, 4);
  EXPECT_EQ(config.sliding_rope->theta, 100);
  EXPECT_EQ(config.sliding_rope->rotary_dim, 4);
  EXPECT_EQ(config.moe_layers, (std::vector{false, false, true}));
  EXPECT_TRUE(config.moe->renormalises);
  EXPECT_EQ(code_of_config(file({1, 2, 1})), "E_CONFIG") << "other numbers in windows";
  EXPECT_EQ(code_of_config(file({2, 2, 2})), "E_CONFIG") << "not twice as many";
  EXPECT_EQ(code_of_config(file({1, 2})), "E_CONFIG");
}

TEST_F(GgufMimo2, may_rotate_another_part_in_windows) {
  GgufBytes file = this->file();
  const ModelConfig config = config_of(file.integer("mimo2.rope.dimension_count_swa", 6));
  EXPECT_EQ(config.rope.rotary_dim, 4);
  EXPECT_EQ(config.sliding_rope->rotary_dim, 6);
  const std::vector<std::pair<std::string, uint32_t>> wrong = {{"rope.dimension_count_swa", 10},
                                                               {"attention.key_length_swa", 6},
                                                               {"attention.value_length_swa", 8},
                                                               {"expert_shared_count", 1},
                                                               {"expert_gating_func", 1}};
  for (const auto& [key, value] : wrong) {
    GgufBytes changed = this->file();
    EXPECT_EQ(code_of_config(changed.integer("mimo2." + key, value)), "E_CONFIG") << key;
  }
  GgufBytes scaled = this->file();
  scaled.string("mimo2.rope.scaling.type", "linear").real("mimo2.rope.scaling.factor", 2);
  EXPECT_EQ(code_of_config(scaled), "E_CONFIG");
}

TEST_F(GgufMimo2, says_that_values_are_not_scaled) {
  GgufBytes file = this->file();
  EXPECT_TRUE(open(file)->config().warnings.empty());
  file.without("mimo2.attention.value_scale");
  const LoadedModelConfig loaded = open(file)->config();
  EXPECT_EQ(loaded.config.value_scale, 1);
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_THAT(loaded.warnings[0], testing::HasSubstr("mimo2.attention.value_scale is absent"));
  const LoadedModelConfig given = open(file)->config({{"attention_value_scale", 0.707}});
  EXPECT_EQ(given.config.value_scale, 0.707);
  EXPECT_TRUE(given.warnings.empty());
}

TEST_F(GgufMimo2, has_sinks_and_leaves_out_layers_that_predict_more) {
  GgufBytes file = this->file({1, 2, 2});
  file.integer("mimo2.nextn_predict_layers", 1)
      .tensor("blk.1.attn_sinks.weight", 0, {2}, bytes_of(counting(2, 7)))
      .tensor("blk.1.attn_v.weight", 0, {12, 8}, bytes_of(counting(96, 9)))
      .tensor("blk.2.nextn.eh_proj.weight", 0, {8, 16}, bytes_of(counting(128, 0)));
  const ModelConfig config = config_of(file);
  EXPECT_EQ(config.layer_types.size(), 2U);
  EXPECT_EQ(config.moe_layers, (std::vector{false, false}));
  const GgufWeights weights = weights_of(file);
  EXPECT_EQ(read(weights, "model.layers.1.self_attn.attention_sink_bias", 2), counting(2, 7));
  EXPECT_EQ(read(weights, "model.layers.1.self_attn.v_proj.weight", 96), counting(96, 9));
}

class GgufStep35 : public GgufArchitectures {
 protected:
  /// A layer with a window and four heads, then a layer with no window, two heads and experts.
  static GgufBytes file(const std::vector<uint32_t>& heads = {4, 2}) {
    GgufBytes file =
        file_of("step35", kWindowKeys + Keys{{"expert_shared_feed_forward_length", 10}}, 2);
    file.without("step35.attention.head_count")
        .numbers<uint32_t>("step35.attention.head_count", 4, heads)
        .numbers<uint32_t>("step35.attention.head_count_kv", 4, {2, 2})
        .numbers<uint8_t>("step35.attention.sliding_window_pattern", 7, {1, 0})
        .numbers<float>("step35.swiglu_clamp_exp", 6, {0, 7})
        .numbers<float>("step35.swiglu_clamp_shexp", 6, {16, 0})
        .boolean("step35.expert_weights_norm", true)
        .real("step35.expert_weights_scale", 3)
        .real("step35.rope.freq_base", 5000)
        .real("step35.rope.freq_base_swa", 100)
        .tensor("blk.1.ffn_gate_inp.weight", 0, {4, 8}, bytes_of(counting(32, 3)));
    return file;
  }
};

TEST_F(GgufStep35, has_other_heads_and_rotations_in_windows) {
  const ModelConfig config = config_of(file());
  EXPECT_EQ(config.architecture, Architecture::step3p5);
  EXPECT_EQ(config.query_heads_of_layer(0), 4);
  EXPECT_EQ(config.query_heads_of_layer(1), 2);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.rope.rotary_dim, 4) << "half of a head";
  EXPECT_EQ(config.rope.theta, 5000);
  EXPECT_EQ(config.sliding_rope->rotary_dim, 0) << "all of a head";
  EXPECT_EQ(config.sliding_rope->theta, 100);
  EXPECT_EQ(config.moe_layers, (std::vector{false, true}));
  EXPECT_EQ(config.moe->shared_intermediate_size, 10);
  EXPECT_EQ(config.moe->routed_scale, 3);
  EXPECT_EQ(config.moe->limits, (std::vector<double>{0, 7}));
  EXPECT_EQ(config.mlp_limits, (std::vector<double>{16, 0}));
  EXPECT_EQ(code_of_config(file({4, 2, 2})), "E_CONFIG");
  EXPECT_EQ(code_of_config(file_of("step35", kWindowKeys)), "E_CONFIG");
}

TEST_F(GgufStep35, refuses_what_the_class_does_not_compute) {
  GgufBytes heads = file();
  heads.without("step35.attention.head_count_kv")
      .numbers<uint32_t>("step35.attention.head_count_kv", 4, {2, 1});
  EXPECT_EQ(code_of_config(heads), "E_CONFIG");
  GgufBytes values = file();
  EXPECT_EQ(code_of_config(values.integer("step35.attention.value_length", 6)), "E_CONFIG");
  GgufBytes weights = file();
  EXPECT_EQ(code_of_config(weights.without("step35.expert_weights_norm")), "E_CONFIG");
  GgufBytes softmax = file();
  EXPECT_EQ(code_of_config(softmax.integer("step35.expert_gating_func", 1)), "E_CONFIG");
  GgufBytes limits = file();
  limits.without("step35.swiglu_clamp_exp").numbers<float>("step35.swiglu_clamp_exp", 6, {-1, 0});
  EXPECT_EQ(code_of_config(limits), "E_CONFIG");
}

TEST_F(GgufStep35, has_gates_of_heads_and_norms_that_multiply_by_one_more) {
  GgufBytes file = this->file();
  file.tensor("blk.0.attn_gate.weight", 0, {4, 8}, bytes_of(counting(32, 7)))
      .tensor("blk.0.attn_q_norm.weight", 0, {8}, bytes_of(counting(8, 1)))
      .tensor("blk.1.ffn_gate_exps.weight", 0, {4, 6, 8}, bytes_of(counting(192, 0)))
      .tensor("blk.1.ffn_up_shexp.weight", 0, {10, 8}, bytes_of(counting(80, 2)))
      .tensor("blk.1.exp_probs_b.bias", 0, {4}, bytes_of(counting(4, 5)));
  const GgufWeights weights = weights_of(file);
  EXPECT_EQ(read(weights, "model.layers.0.self_attn.g_proj.weight", 32), counting(32, 7));
  EXPECT_EQ(read(weights, "model.layers.0.self_attn.q_norm.weight", 8), counting(8, 0));
  EXPECT_EQ(read(weights, "model.layers.1.moe.experts.1.gate_proj.weight", 48), counting(48, 48));
  EXPECT_EQ(read(weights, "model.layers.1.share_expert.up_proj.weight", 80), counting(80, 2));
  EXPECT_EQ(read(weights, "model.layers.1.moe.router_bias", 4), counting(4, 5));
}

// llama.cpp reads the first factors of a table that is long enough for whole heads.
TEST_F(GgufStep35, divides_the_frequencies_of_layers_without_a_window_by_the_first_factors) {
  GgufBytes file = this->file();
  file.tensor("rope_freqs.weight", 0, {4}, bytes_of({1, 2, 3, 4}));
  const ModelConfig config = config_of(file);
  EXPECT_EQ(config.rope.type, RopeType::factors);
  EXPECT_EQ(config.rope.frequency_factors, (std::vector<double>{1, 2}));
  EXPECT_EQ(config.sliding_rope->type, RopeType::standard);
  const Json overrides = {{"rope_parameters", {{"full_attention", {{"rope_theta", 7.0}}}}}};
  const ModelConfig overridden = open(file)->config(overrides).config;
  EXPECT_EQ(overridden.rope.type, RopeType::standard);
  EXPECT_EQ(overridden.rope.theta, 7);
}

}  // namespace
}  // namespace reprise::weights::gguf
