#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "tests/support/source_dir.h"
#include "tests/support/weights/gguf_architecture_fixture.h"

namespace reprise::weights::gguf {
namespace {

const Keys kMamba2 = {{"ssm.conv_kernel", 4},
                      {"ssm.inner_size", 16},
                      {"ssm.state_size", 6},
                      {"ssm.time_step_rank", 4},
                      {"ssm.group_count", 2}};
const Keys kExperts = {{"expert_count", 3}, {"expert_used_count", 2}};
const Keys kLlama4 = {{"expert_count", 3},
                      {"expert_used_count", 1},
                      {"expert_feed_forward_length", 6},
                      {"interleave_moe_layer_step", 1}};

// llama.cpp computes the same numbers from these keys as Transformers.
TEST_F(GgufArchitectures, ministral_3_has_a_temperature_and_the_attention_factor_of_mscale) {
  GgufBytes file = file_of("mistral3");
  file.string("mistral3.rope.scaling.type", "yarn")
      .real("mistral3.rope.scaling.factor", 16)
      .integer("mistral3.rope.scaling.original_context_length", 64)
      .real("mistral3.rope.scaling.yarn_log_multiplier", 1)
      .real("mistral3.attention.temperature_scale", 0.5F);
  const ModelConfig config = config_of(file);
  EXPECT_EQ(config.architecture, Architecture::ministral3);
  EXPECT_EQ(config.query_temperature, (AttentionTemperature{.scale = 0.5, .floor_positions = 64}));
  EXPECT_EQ(config.rope.attention_factor, 1.0);
  EXPECT_EQ(config.derived_max_model_len(), 1024);
  EXPECT_FALSE(config.sliding_window);
}

TEST_F(GgufArchitectures, are_those_of_the_registry_that_the_format_names) {
  const std::vector<std::tuple<std::string, Keys, Architecture>> rows = {
      {"chatglm", {}, Architecture::glm},
      {"cohere2", {}, Architecture::cohere2},
      {"command-r", {}, Architecture::cohere},
      {"deepseek2", kDeepSeekKeys, Architecture::deepseek_v2},
      {"deepseek2", kDeepSeekKeys + Keys{{"expert_gating_func", 2}}, Architecture::deepseek_v3},
      {"deepseek32", kDeepSeekKeys + kIndexKeys, Architecture::deepseek_v32},
      {"dots1", kExperts, Architecture::dots1},
      {"ernie4_5-moe",
       kExperts + Keys{{"interleave_moe_layer_step", 1}},
       Architecture::ernie4_5_moe},
      {"exaone4", {}, Architecture::exaone4},
      {"falcon", {}, Architecture::falcon},
      {"falcon-h1", kMamba2, Architecture::falcon_h1},
      {"gemma", {}, Architecture::gemma},
      {"gemma2", {}, Architecture::gemma2},
      {"gemma3", {}, Architecture::gemma3},
      {"glm-dsa", kDeepSeekKeys + kIndexKeys, Architecture::glm_moe_dsa},
      {"glm4", {}, Architecture::glm4},
      {"glm4moe", kExperts, Architecture::glm4_moe},
      {"gpt2", {}, Architecture::gpt2},
      {"gpt-oss", kExperts, Architecture::gpt_oss},
      {"gptneox", {}, Architecture::gpt_neox},
      {"granitehybrid", kMamba2, Architecture::granite_moe_hybrid},
      {"granitehybrid", kMamba2 + kExperts, Architecture::granite_moe_hybrid},
      {"hunyuan-dense", {}, Architecture::hunyuan_dense},
      {"hunyuan-moe", kExperts, Architecture::hunyuan_moe},
      {"lfm2", {{"shortconv.l_cache", 3}}, Architecture::lfm2},
      {"lfm2moe", kExperts + Keys{{"shortconv.l_cache", 3}}, Architecture::lfm2_moe},
      {"llama4", kLlama4, Architecture::llama4},
      {"mamba", kMamba2, Architecture::mamba},
      {"mamba2", kMamba2, Architecture::mamba2},
      {"minimax-m2", kExperts, Architecture::minimax_m2},
      {"mistral3", {}, Architecture::mistral},
      {"mistral4", kDeepSeekKeys, Architecture::mistral4},
      {"qwen35", kMamba2, Architecture::qwen3_5},
      {"qwen35moe", kMamba2 + kExperts, Architecture::qwen3_5_moe},
      {"qwen3next", kMamba2 + kExperts, Architecture::qwen3_next},
      {"stablelm", {}, Architecture::stablelm},
      {"starcoder", {}, Architecture::gpt_bigcode},
      {"starcoder2", {}, Architecture::starcoder2},
  };
  for (const auto& [name, keys, architecture] : rows) {
    GgufBytes file = file_of(name, keys);
    if (name == "granitehybrid" || name.starts_with("lfm2")) {
      file.numbers<uint32_t>(name + ".attention.head_count_kv", 4, {0});
    }
    if (name == "dots1" || name == "glm4moe" || architecture == Architecture::deepseek_v3) {
      file.boolean(name + ".expert_weights_norm", true);
    }
    SCOPED_TRACE(name);
    EXPECT_EQ(config_of(file).architecture, architecture);
  }
}

TEST_F(GgufArchitectures, of_sigmoid_routers_have_no_other_function) {
  for (const std::string name : {"dots1", "glm4moe", "minimax-m2", "lfm2moe"}) {
    GgufBytes file =
        file_of(name, kExperts + Keys{{"expert_gating_func", 1}, {"shortconv.l_cache", 3}});
    file.boolean(name + ".expert_weights_norm", true);
    EXPECT_EQ(code_of([&] { config_of(file); }), "E_CONFIG") << name;
  }
}

TEST_F(GgufArchitectures, only_the_largest_exaone_4_has_windows_without_a_key) {
  EXPECT_FALSE(config_of(file_of("exaone4")).sliding_window);
  EXPECT_EQ(config_of(file_of("exaone4", {}, 64)).window_of_layer(2), 4096);
}

TEST_F(GgufArchitectures, have_q_k_and_v_one_above_the_other) {
  for (const char* name : {"gptneox", "falcon", "gpt2"}) {
    const ModelConfig config = config_of(file_of(name));
    EXPECT_EQ(config.qkv_layout, QkvLayout::stacked) << name;
    EXPECT_FALSE(config.has_transposed_matrices) << name;
  }
  GgufBytes file = file_of("falcon");
  file.tensor("blk.0.attn_norm_2.weight", 0, {8}, bytes_of(counting(8, 1)))
      .tensor("blk.0.attn_norm.weight", 0, {8}, bytes_of(counting(8, 9)));
  const GgufWeights weights = weights_of(file);
  EXPECT_EQ(read(weights, "transformer.h.0.ln_attn.weight", 8), counting(8, 1));
  EXPECT_EQ(read(weights, "transformer.h.0.ln_mlp.weight", 8), counting(8, 9));
}

TEST_F(GgufArchitectures, rotate_as_many_elements_as_the_file_says) {
  EXPECT_EQ(config_of(file_of("glm4", {{"rope.dimension_count", 2}})).rope.rotary_dim, 2);
  EXPECT_EQ(config_of(file_of("stablelm")).rope.rotary_dim, 0) << "all";
  EXPECT_EQ(code_of([&] { config_of(file_of("glm4", {{"rope.dimension_count", 6}})); }),
            "E_CONFIG");
  GgufBytes yarn = file_of("qwen2", {{"rope.scaling.original_context_length", 16}});
  yarn.string("qwen2.rope.scaling.type", "yarn").real("qwen2.rope.scaling.factor", 4);
  const RopeParameters rope = config_of(yarn).rope;
  EXPECT_EQ(rope.type, RopeType::yarn);
  EXPECT_EQ(rope.original_max_position_embeddings, 16);
  EXPECT_NEAR(rope.attention_factor, 1 + 0.1 * std::log(4), 1e-12);
}

TEST_F(GgufArchitectures, with_recurrent_layers_list_them_by_their_heads) {
  GgufBytes file = file_of("granitehybrid", kMamba2);
  file.numbers<uint32_t>("granitehybrid.attention.head_count_kv", 4, {0});
  const ModelConfig config = config_of(file);
  EXPECT_TRUE(config.is_recurrent_layer(0));
  EXPECT_EQ(config.recurrent->head_dim, 4);
  for (const std::vector<uint32_t>& counts : {std::vector<uint32_t>{0, 2}, {1U << 31}}) {
    GgufBytes wrong = file_of("granitehybrid", kMamba2);
    wrong.numbers<uint32_t>("granitehybrid.attention.head_count_kv", 4, counts);
    EXPECT_EQ(code_of([&] { config_of(wrong); }), "E_CONFIG") << counts.size();
  }
  GgufBytes dense = file_of("qwen2");
  dense.strings("qwen2.attention.head_count_kv", {"2"});
  EXPECT_EQ(code_of([&] { config_of(dense); }), "E_CONFIG");
}

TEST_F(GgufArchitectures, with_windows_list_their_layers) {
  GgufBytes file = file_of("olmo2", {{"attention.sliding_window", 5}});
  EXPECT_EQ(config_of(file).architecture, Architecture::olmo3);
  file.numbers<uint8_t>("olmo2.attention.sliding_window_pattern", 7, {0});
  EXPECT_EQ(config_of(file).layer_types, (std::vector{LayerType::full_attention}));
  EXPECT_EQ(config_of(file_of("olmo2")).architecture, Architecture::olmo2);
  GgufBytes wrong = file_of("gemma3", {{"attention.sliding_window", 5}});
  wrong.numbers<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1});
  EXPECT_EQ(code_of([&] { config_of(wrong); }), "E_CONFIG");
}

TEST_F(GgufArchitectures, with_a_recurrence_refuse_what_has_no_logarithm) {
  for (const float wrong : {1.0F, NAN}) {
    GgufBytes file = file_of("mamba2", kMamba2);
    file.tensor("blk.0.ssm_a", 0, {4, 1}, bytes_of({-1, -2, wrong, -8}));
    const GgufWeights weights = weights_of(file);
    EXPECT_EQ(code_of([&] { read(weights, "backbone.layers.0.mixer.A_log", 4); }), "E_VALUE");
  }
}

// The expected values come from the formulas of convert_hf_to_gguf.py, inverted.
TEST_F(GgufArchitectures, with_a_recurrence_have_its_logarithm_and_its_convolution) {
  GgufBytes file = file_of("mamba2", kMamba2);
  file.tensor("blk.0.ssm_a", 0, {4, 1}, bytes_of({-1, -2, -4, -8}))
      .tensor("blk.0.ssm_conv1d.weight", 0, {40, 4}, bytes_of(counting(160, 0)))
      .tensor("blk.0.ssm_norm.weight", 0, {2, 8}, bytes_of(counting(16, 3)))
      .tensor("blk.0.ssm_dt.bias", 0, {4}, bytes_of(counting(4, 5)));
  const GgufWeights weights = weights_of(file);
  const Floats logs = read(weights, "backbone.layers.0.mixer.A_log", 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(logs[i], std::log(2.0) * static_cast<double>(i), 1e-6);
  }
  EXPECT_EQ(weights.find("backbone.layers.0.mixer.A_log")->shape, (std::vector<int64_t>{4}));
  EXPECT_EQ(weights.find("backbone.layers.0.mixer.conv1d.weight")->shape,
            (std::vector<int64_t>{40, 1, 4}));
  EXPECT_EQ(read(weights, "backbone.layers.0.mixer.norm.weight", 16), counting(16, 3));
  EXPECT_EQ(read(weights, "backbone.layers.0.mixer.dt_bias", 4), counting(4, 5));
}

TEST_F(GgufArchitectures, with_two_tensors_for_one_have_both_or_are_refused) {
  const auto file_with = [](const std::vector<uint64_t>& gate, bool has_up) {
    GgufBytes file = file_of("granitehybrid", kMamba2);
    file.numbers<uint32_t>("granitehybrid.attention.head_count_kv", 4, {0});
    size_t count = 1;
    for (const uint64_t extent : gate) count *= extent;
    file.tensor("blk.0.ffn_gate.weight", 0, gate, bytes_of(counting(count, 0)));
    if (has_up) file.tensor("blk.0.ffn_up.weight", 0, {16, 8}, bytes_of(counting(128, 500)));
    return file;
  };
  const GgufWeights weights = weights_of(file_with({16, 8}, true));
  const std::string name = "model.layers.0.shared_mlp.input_linear.weight";
  const Floats values = read(weights, name, 256);
  EXPECT_EQ(values[127], 127);
  EXPECT_EQ(values[128], 500);
  EXPECT_EQ(weights.stored_bytes(name), 1024U);
  Floats row(8);
  weights.read_rows(
      name, {.first = 16, .count = 1}, DType::f32, std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, counting(8, 500));
  EXPECT_EQ(code_of_weights(file_with({16, 8}, false)), "E_MISSING");
  EXPECT_EQ(code_of_weights(file_with({8, 8}, true)), "E_SHAPE");
  EXPECT_EQ(code_of_weights(file_with({8, 16}, true)), "E_SHAPE");
  EXPECT_EQ(code_of_weights(file_with({128}, true)), "E_SHAPE");
}

TEST_F(GgufArchitectures, with_latent_attention_exchange_rows_and_columns_of_keys) {
  const auto file_with = [](const std::vector<uint64_t>& k_shape) {
    GgufBytes file = file_of("deepseek2", kDeepSeekKeys);
    file.tensor("blk.0.attn_k_b.weight", 0, k_shape, bytes_of(counting(24, 0)))
        .tensor("blk.0.attn_v_b.weight", 0, {2, 2, 4}, bytes_of(counting(16, 100)));
    return file;
  };
  const GgufWeights weights = weights_of(file_with({2, 4, 3}));
  const std::string name = "model.layers.0.self_attn.kv_b_proj.weight";
  const Floats values = read(weights, name, 40);
  for (size_t head = 0; head < 2; ++head) {
    for (size_t row = 0; row < 3; ++row) {
      for (size_t column = 0; column < 4; ++column) {
        EXPECT_EQ(values[head * 20 + row * 4 + column],
                  static_cast<float>(head * 12 + column * 3 + row));
      }
    }
    EXPECT_EQ(values[head * 20 + 12], static_cast<float>(100 + head * 8));
  }
  EXPECT_FALSE(weights.reads_rows(name));
  EXPECT_EQ(weights.panel_format(name), std::nullopt);
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{24}, {8, 3}, {2, 3, 4}, {4, 2, 3}, {1, 4, 6}}) {
    EXPECT_EQ(code_of_weights(file_with(shape)), "E_SHAPE") << shape.size();
  }
}

TEST_F(GgufArchitectures, with_stacked_experts_have_gate_and_up_of_each_expert_together) {
  GgufBytes file = file_of("gpt-oss", kExperts);
  file.tensor("blk.0.ffn_gate_exps.weight", 0, {3, 16, 8}, bytes_of(counting(384, 0)))
      .tensor("blk.0.ffn_up_exps.weight", 0, {3, 16, 8}, bytes_of(counting(384, 1000)))
      .tensor("blk.0.ffn_gate_exps.bias", 0, {3, 16}, bytes_of(counting(48, 0)))
      .tensor("blk.0.ffn_up_exps.bias", 0, {3, 16}, bytes_of(counting(48, 100)))
      .tensor("blk.0.attn_sinks.weight", 0, {2}, bytes_of(counting(2, 7)));
  const GgufWeights weights = weights_of(file);
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  ASSERT_NE(weights.find(name), nullptr);
  EXPECT_EQ(weights.find(name)->shape, (std::vector<int64_t>{3, 32, 8}));
  const Floats values = read(weights, name, 768);
  EXPECT_EQ(values[127], 127);
  EXPECT_EQ(values[128], 1000);
  EXPECT_EQ(values[256], 128);
  Floats second(256);
  weights.read_rows(
      name, {.first = 1, .count = 1}, DType::f32, std::as_writable_bytes(std::span(second)));
  EXPECT_TRUE(std::equal(second.begin(), second.end(), values.begin() + 256));
  const Floats bias = read(weights, name + "_bias", 96);
  EXPECT_EQ(bias[16], 100);
  EXPECT_EQ(bias[32], 16);
  EXPECT_EQ(read(weights, "model.layers.0.self_attn.sinks", 2), counting(2, 7));
}

TEST_F(GgufArchitectures, of_qwen3_next_have_each_group_of_heads_together) {
  GgufBytes file = file_of("qwen3next", kMamba2 + kExperts);
  file.tensor("blk.0.attn_qkv.weight", 0, {40, 8}, bytes_of(counting(320, 0)))
      .tensor("blk.0.attn_gate.weight", 0, {16, 8}, bytes_of(counting(128, 1000)));
  // Rows of the file, for each of two groups: six of q, six of k and eight of v.
  const Floats values =
      read(weights_of(file), "model.layers.0.linear_attn.in_proj_qkvz.weight", 448);
  const std::vector<std::pair<size_t, float>> firsts = {
      {0, 0}, {6, 12}, {12, 24}, {20, 125}, {28, 6}, {34, 18}, {40, 32}, {48, 133}};
  for (const auto& [row, stored] : firsts) EXPECT_EQ(values[row * 8], stored * 8) << row;
}

// Llama 4 files do not contain these settings; llama.cpp has them in its code.
TEST_F(GgufArchitectures, of_llama4_have_the_layers_of_published_models) {
  GgufBytes file = file_of("llama4", kLlama4);
  file.tensor("blk.0.ffn_down_shexp.weight", 0, {8, 6}, bytes_of(counting(48, 2)));
  const ModelConfig config = config_of(file);
  EXPECT_EQ(config.intermediate_size, 16);
  EXPECT_EQ(config.moe->intermediate_size, 6);
  EXPECT_EQ(config.moe->shared_intermediate_size, 6);
  EXPECT_EQ(config.attention_chunk_size, 8192);
  EXPECT_EQ(config.layer_types, std::vector{LayerType::chunked_attention});
  EXPECT_TRUE(config.has_unit_qk_norm);
  EXPECT_EQ(config.attention_temperature->floor_positions, 8192);
  EXPECT_EQ(
      read(weights_of(file), "model.layers.0.feed_forward.shared_expert.down_proj.weight", 48),
      counting(48, 2));
  const Keys others = {{"expert_used_count", 1},
                       {"expert_feed_forward_length", 6},
                       {"interleave_moe_layer_step", 1}};
  EXPECT_FALSE(config_of(file_of("llama4", others + Keys{{"expert_count", 128}})).has_unit_qk_norm);
  EXPECT_EQ(code_of([&] { config_of(file_of("llama4", others)); }), "E_CONFIG") << "no experts";
  for (const Keys& wrong : {Keys{{"attention.sliding_window", 0}},
                            {{"attention.sliding_window_pattern", 2}},
                            {{"expert_shared_feed_forward_length", 7}}}) {
    EXPECT_EQ(code_of([&] { config_of(file_of("llama4", kLlama4 + wrong)); }), "E_CONFIG");
  }
}

TEST_F(GgufArchitectures,
       of_qwen35_keep_the_order_of_heads_and_leave_out_layers_that_predict_more) {
  GgufBytes file = file_of("qwen35", kMamba2 + Keys{{"nextn_predict_layers", 1}});
  EXPECT_EQ(code_of([&] { config_of(file); }), "E_CONFIG") << "no layer is left";
  file = file_of("qwen35", kMamba2);
  file.tensor("blk.0.attn_qkv.weight", 0, {40, 8}, bytes_of(counting(320, 0)))
      .tensor("blk.0.attn_gate.weight", 0, {16, 8}, bytes_of(counting(128, 3)))
      .tensor("blk.0.ssm_beta.weight", 0, {4, 8}, bytes_of(counting(32, 5)))
      .tensor("blk.0.ssm_alpha.weight", 0, {4, 8}, bytes_of(counting(32, 7)))
      .tensor("blk.0.post_attention_norm.weight", 0, {8}, bytes_of(counting(8, 1)));
  const ModelConfig config = config_of(file);
  EXPECT_TRUE(config.is_recurrent_layer(0));
  EXPECT_TRUE(config.recurrent->has_tiled_heads);
  EXPECT_FALSE(config_of(file_of("qwen3next", kMamba2 + kExperts)).recurrent->has_tiled_heads);
  const GgufWeights weights = weights_of(file);
  const std::string mixer = "model.layers.0.linear_attn.";
  EXPECT_EQ(read(weights, mixer + "in_proj_qkv.weight", 320), counting(320, 0));
  EXPECT_EQ(read(weights, mixer + "in_proj_z.weight", 128), counting(128, 3));
  EXPECT_EQ(read(weights, mixer + "in_proj_b.weight", 32), counting(32, 5));
  EXPECT_EQ(read(weights, mixer + "in_proj_a.weight", 32), counting(32, 7));
  EXPECT_EQ(read(weights, "model.layers.0.post_attention_layernorm.weight", 8), counting(8, 0));
}

TEST_F(GgufArchitectures, of_qwen35_may_list_their_recurrent_layers) {
  const auto file_with = [](const std::vector<uint8_t>& are_recurrent) {
    GgufBytes file;
    for (const auto& [key, value] : kMamba2) file.integer("qwen35." + key, value);
    return file.string("general.architecture", "qwen35")
        .integer("qwen35.block_count", 3)
        .integer("qwen35.nextn_predict_layers", 1)
        .integer("qwen35.context_length", 64)
        .integer("qwen35.embedding_length", 8)
        .integer("qwen35.feed_forward_length", 16)
        .integer("qwen35.attention.head_count", 2)
        .real("qwen35.attention.layer_norm_rms_epsilon", 1e-5F)
        .numbers<uint8_t>("qwen35.attention.recurrent_layers", 7, are_recurrent)
        .tensor("token_embd.weight", 0, {4, 8}, bytes_of(counting(32, 0)))
        .tensor("blk.2.nextn.eh_proj.weight", 0, {8, 16}, bytes_of(counting(128, 0)))
        .tensor("blk.2.attn_norm.weight", 0, {8}, bytes_of(counting(8, 0)));
  };
  const ModelConfig config = config_of(file_with({0, 1, 0}));
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.layer_types,
            (std::vector{LayerType::full_attention, LayerType::linear_attention}));
  EXPECT_EQ(weights_of(file_with({0, 1, 0})).names().size(), 1U);
  EXPECT_EQ(code_of([&] { config_of(file_with({0, 1})); }), "E_CONFIG");
}

// For each name there is an expression that PCRE2 accepts; the tests of the tokenizer check what it
// matches.
TEST_F(GgufArchitectures, have_pre_tokenizers_of_their_own) {
  const std::vector<std::pair<std::string, size_t>> rows = {{"seed-coder", 2},
                                                            {"gpt-4o", 2},
                                                            {"deepseek-v3", 4},
                                                            {"deepseek-coder", 6},
                                                            {"deepseek-llm", 7},
                                                            {"command-r", 2},
                                                            {"starcoder", 2},
                                                            {"falcon", 4},
                                                            {"olmo", 1},
                                                            {"exaone4", 1},
                                                            {"hunyuan", 2},
                                                            {"hunyuan-dense", 4},
                                                            {"minimax-m2", 2},
                                                            {"solar-open", 2},
                                                            {"lfm2", 2}};
  for (const auto& [name, num_steps] : rows) {
    EXPECT_EQ(pre_tokenizer_of(name)["pretokenizers"].size(), num_steps) << name;
  }
}

TEST_F(GgufArchitectures, cut_text_as_the_tokenizer_of_falcon_does) {
  const ModelDirectory goldens(std::filesystem::path(source_dir()) / "tests/goldens/tokenizers");
  const std::string published = goldens.read_text("falcon.tokenizer.json", 1 << 20);
  EXPECT_EQ(pre_tokenizer_of("falcon"), parse_json(published, "golden")["pre_tokenizer"]);
}

}  // namespace
}  // namespace reprise::weights::gguf
