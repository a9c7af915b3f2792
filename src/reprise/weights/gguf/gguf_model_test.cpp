#include "reprise/weights/gguf/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "reprise/base/element.h"
#include "reprise/base/json.h"
#include "reprise/tensor/packed_weight.h"
#include "reprise/weights/gguf/gguf_weights.h"
#include "reprise/weights/gguf/pack_panels.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "reprise/weights/sources/watched_weights.h"
#include "tests/support/weights/gguf_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights::gguf {
namespace {

/// A file with two heads of four rows for q, and one for k.
GgufBytes model_file(std::string_view architecture = "llama") {
  const std::string prefix = std::string(architecture) + ".";
  GgufBytes file;
  file.string("general.architecture", architecture)
      .integer(prefix + "block_count", 1)
      .integer(prefix + "context_length", 64)
      .integer(prefix + "embedding_length", 8)
      .integer(prefix + "feed_forward_length", 16)
      .integer(prefix + "attention.head_count", 2)
      .integer(prefix + "attention.head_count_kv", 1)
      .real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F)
      .real(prefix + "rope.freq_base", 5e5F)
      .string("tokenizer.ggml.model", "gpt2")
      .string("tokenizer.ggml.pre", "qwen2")
      .strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<|im_end|>"})
      .numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3})
      .strings("tokenizer.ggml.merges", {"a b"})
      .integer("tokenizer.ggml.eos_token_id", 2)
      .string("tokenizer.chat_template", "{{ 1 }}")
      .real("general.sampling.temp", 0.5F)
      .tensor("token_embd.weight", 0, {4, 8}, bytes_of(counting(32, 0)))
      .tensor("blk.0.attn_q.weight", 0, {8, 8}, bytes_of(counting(64, 100)))
      .tensor("blk.0.attn_k.weight", 0, {4, 8}, bytes_of(counting(32, 200)))
      .tensor("blk.0.attn_q.bias", 0, {8}, bytes_of(counting(8, 0)));
  return file;
}

Floats read(const WeightSource& source, std::string_view name, size_t count) {
  Floats values(count);
  source.read(name, DType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

std::string name_of(std::string_view name, const ModelConfig& config) {
  const auto found = checkpoint_name(name, config, decoder_tensors(config));
  return found ? found->name : std::string();
}

class GgufModelTest : public testing::Test {
 protected:
  std::shared_ptr<const GgufModel> open(const GgufBytes& file) {
    return GgufModel::open(directory_.write("model.gguf", file.bytes()));
  }
  std::string code_of_config(const GgufBytes& file) {
    return code_of([&] { static_cast<void>(open(file)->config()); });
  }
  std::string message_of_tokenizer(const GgufBytes& file) {
    return message_of([&] { static_cast<void>(open(file)->tokenizer_json()); });
  }

  TempDirectory directory_;
};

TEST_F(GgufModelTest, gives_the_configuration_that_a_folder_would_have) {
  const ModelConfig config = open(model_file())->config().config;
  EXPECT_EQ(config.architecture, Architecture::llama);
  EXPECT_EQ(config.vocab_size, 4);
  EXPECT_EQ(config.head_dim, 4);
  EXPECT_EQ(config.num_key_value_heads, 1);
  EXPECT_EQ(config.rope.theta, 5e5);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FLOAT_EQ(static_cast<float>(config.norm_eps), 1e-5F);
  EXPECT_EQ(open(model_file("qwen3"))->config().config.qk_norm, QkNorm::per_head);
  EXPECT_EQ(open(model_file())->config({{"num_hidden_layers", 7}}).config.num_hidden_layers, 7);
  // "<|im_end|>" ends answers even if the file names another token.
  const GenerationConfig generation = open(model_file())->generation_config();
  EXPECT_EQ(generation.eos_token_ids, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(generation.temperature, 0.5);
}

// As in llama.cpp.
TEST_F(GgufModelTest, takes_lists_of_equal_numbers_for_one_number) {
  const auto config = [](const std::vector<int32_t>& heads, const std::vector<int32_t>& sizes) {
    GgufBytes changed = model_file("qwen3");
    changed.without("qwen3.attention.head_count")
        .without("qwen3.feed_forward_length")
        .without("qwen3.block_count")
        .integer("qwen3.block_count", 2)
        .numbers<int32_t>("qwen3.attention.head_count", 5, heads)
        .numbers<int32_t>("qwen3.feed_forward_length", 5, sizes);
    return changed;
  };
  const ModelConfig equal = open(config({2, 2}, {16, 16}))->config().config;
  EXPECT_EQ(equal.num_attention_heads, 2);
  EXPECT_EQ(equal.intermediate_size, 16);
  EXPECT_EQ(code_of_config(config({2, 4}, {16, 16})), "E_CONFIG");
  EXPECT_EQ(code_of_config(config({2, 2}, {16, 32})), "E_CONFIG");
  EXPECT_EQ(code_of_config(config({2}, {16, 16})), "E_CONFIG") << "a list for fewer layers";
}

TEST_F(GgufModelTest, loads_tokenizers_that_say_too_little_and_warns) {
  const auto warnings = [&](const GgufBytes& file) { return open(file)->config().warnings; };
  EXPECT_TRUE(warnings(model_file()).empty());
  const auto says = [&](const GgufBytes& file, std::string_view text) {
    const std::vector<std::string> said = warnings(file);
    return said.size() == 1 && said.front().find(text) != std::string::npos;
  };
  const GgufBytes no_pre = model_file().without("tokenizer.ggml.pre");
  EXPECT_TRUE(says(no_pre, "tokenizer.ggml.pre"));
  GgufBytes by_name = no_pre;
  by_name.string("tokenizer.ggml.pre", "default");
  EXPECT_TRUE(says(by_name, "tokenizer.ggml.pre"));
  EXPECT_EQ(open(by_name)->tokenizer_json(), open(no_pre)->tokenizer_json());
  GgufBytes no_scores = model_file().without("tokenizer.ggml.model");
  no_scores.string("tokenizer.ggml.model", "llama");
  EXPECT_TRUE(says(no_scores, "tokenizer.ggml.scores"));
  EXPECT_NE(open(no_scores)->tokenizer_json().find(R"(["a","b"])"), std::string::npos);
  GgufBytes far_eos = model_file().without("tokenizer.ggml.eos_token_id");
  far_eos.integer("tokenizer.ggml.eos_token_id", 4);
  EXPECT_TRUE(says(far_eos, "tokenizer.ggml.eos_token_id is 4"));
  EXPECT_EQ(open(far_eos)->generation_config().eos_token_ids, (std::vector<int64_t>{3}));
}

TEST_F(GgufModelTest, gives_the_frequency_factors_of_llama_3) {
  GgufBytes file = model_file();
  file.tensor("rope_freqs.weight", 0, {2}, bytes_of({1, 8}));
  const RopeParameters rope = open(file)->config().config.rope;
  EXPECT_EQ(rope.type, RopeType::factors);
  EXPECT_EQ(rope.frequency_factors, (std::vector<double>{1, 8}));
  GgufBytes wrong = model_file();
  wrong.tensor("rope_freqs.weight", 0, {3}, bytes_of({1, 8, 8}));
  EXPECT_EQ(code_of_config(wrong), "E_SHAPE");
  GgufBytes zero = model_file();
  zero.tensor("rope_freqs.weight", 0, {2}, bytes_of({1, 0}));
  EXPECT_EQ(code_of_config(zero), "E_VALUE");
}

// As in llama.cpp, a factor that is absent or 0 is not applied.
TEST_F(GgufModelTest, gives_the_factors_of_granite) {
  GgufBytes file = model_file("granite");
  const ModelConfig plain = open(file)->config().config;
  EXPECT_EQ(plain.architecture, Architecture::granite);
  EXPECT_EQ(plain.attention_scale, 0.5) << "1 / sqrt(head_dim 4)";
  EXPECT_EQ(plain.embedding_scale, 1);
  file.real("granite.attention.scale", 0.25F)
      .real("granite.embedding_scale", 6)
      .real("granite.residual_scale", 0.5F)
      .real("granite.logit_scale", 8);
  const ModelConfig config = open(file)->config().config;
  EXPECT_EQ(config.attention_scale, 0.25);
  EXPECT_EQ(config.embedding_scale, 6);
  EXPECT_EQ(config.residual_scale, 0.5);
  EXPECT_EQ(config.logits_scale, 0.125);
  EXPECT_EQ(code_of_config(model_file().real("llama.logit_scale", 8)), "E_CONFIG");
}

TEST_F(GgufModelTest, gives_the_factors_of_minicpm_and_needs_them) {
  GgufBytes file = model_file("minicpm");
  EXPECT_NE(message_of([&] {
              static_cast<void>(open(file)->config());
            }).find("minicpm.embedding_scale: is required"),
            std::string::npos);
  file.real("minicpm.embedding_scale", 12)
      .real("minicpm.residual_scale", 0.25F)
      .real("minicpm.logit_scale", 4);
  const ModelConfig config = open(file)->config().config;
  EXPECT_EQ(config.embedding_scale, 12);
  EXPECT_EQ(config.residual_scale, 0.25);
  EXPECT_EQ(config.logits_scale, 0.25);
  EXPECT_EQ(num_interleaved_heads("blk.0.attn_q.weight", config), 2);
}

TEST_F(GgufModelTest, gives_the_window_and_the_partial_rotation_of_phi_3) {
  GgufBytes file = model_file("phi3");
  EXPECT_EQ(open(file)->config().config.sliding_window, std::nullopt);
  file.integer("phi3.attention.sliding_window", 7).integer("phi3.rope.dimension_count", 2);
  const ModelConfig config = open(file)->config().config;
  EXPECT_EQ(config.sliding_window, 7);
  EXPECT_EQ(config.rope.rotary_dim, 2);
  EXPECT_EQ(num_interleaved_heads("blk.0.attn_q.weight", config), 0);
  EXPECT_EQ(name_of("blk.1.ffn_up.weight", config), "model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(name_of("blk.1.attn_qkv.weight", config), "model.layers.1.self_attn.qkv_proj.weight");
}

TEST_F(GgufModelTest, gives_the_two_lists_of_factors_of_long_phi_3) {
  const auto with_factors = [&](std::string_view architecture, const Floats& longer) {
    GgufBytes file = model_file(architecture);
    file.tensor("rope_factors_short.weight", 0, {2}, bytes_of({1, 2}))
        .tensor("rope_factors_long.weight", 0, {longer.size()}, bytes_of(longer));
    return file;
  };
  EXPECT_EQ(code_of_config(with_factors("phi3", {3, 4})), "E_CONFIG") << "no original length";
  const auto complete = [&](std::string_view architecture, const Floats& longer) {
    GgufBytes file = with_factors(architecture, longer);
    file.integer(std::string(architecture) + ".rope.scaling.original_context_length", 16);
    return file;
  };
  const RopeParameters rope = open(complete("phi3", {3, 4}))->config().config.rope;
  EXPECT_EQ(rope.type, RopeType::longrope);
  EXPECT_EQ(rope.original_max_position_embeddings, 16);
  EXPECT_EQ(code_of_config(complete("llama", {3, 4})), "E_CONFIG");
  EXPECT_EQ(code_of_config(complete("phi3", {3, 0})), "E_VALUE");
  EXPECT_NE(code_of_config(complete("phi3", {3, 4, 5})), "none");
}

TEST_F(GgufModelTest, leaves_every_fourth_layer_of_smollm3_without_rotation) {
  GgufBytes file = model_file("smollm3");
  const ModelConfig config = open(file)->config({{"num_hidden_layers", 4}}).config;
  EXPECT_EQ(config.rope_layers, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(num_interleaved_heads("blk.0.attn_k.weight", config), 1);
}

TEST_F(GgufModelTest, knows_the_biases_of_seed_oss_and_ernie_by_their_tensors) {
  GgufBytes file = model_file("seed_oss");
  EXPECT_TRUE(open(file)->config().config.qkv_bias);
  EXPECT_FALSE(open(file)->config().config.o_bias);
  file.tensor("blk.0.attn_output.bias", 0, {8}, bytes_of(counting(8, 0)));
  EXPECT_TRUE(open(file)->config().config.o_bias);
  EXPECT_TRUE(open(model_file("ernie4_5"))->config().config.qkv_bias);
}

TEST_F(GgufModelTest, names_the_key_that_is_not_supported) {
  EXPECT_EQ(code_of_config(GgufBytes()), "E_CONFIG");
  const auto message = [&](const GgufBytes& file) {
    return message_of([&] { static_cast<void>(open(file)->config()); });
  };
  EXPECT_NE(message(model_file("gemma3n")).find("general.architecture: 'gemma3n' is not supported"),
            std::string::npos);
  EXPECT_NE(
      message(model_file("qwen3").integer("qwen3.expert_count", 8)).find("qwen3.expert_count"),
      std::string::npos);
  EXPECT_NE(message(model_file().string("llama.rope.scaling.type", "su")).find("'su'"),
            std::string::npos);
  EXPECT_EQ(code_of_config(model_file().integer("llama.rope.dimension_count", 2)), "E_CONFIG");
  GgufBytes no_embedding;
  no_embedding.string("general.architecture", "llama");
  EXPECT_EQ(code_of_config(no_embedding), "E_MISSING");
}

// Files do not contain the scale of attention scores. It follows from the number of layers.
TEST_F(GgufModelTest, gives_the_norms_and_the_scale_of_gemma) {
  GgufBytes file = model_file("gemma2");
  file.tensor("blk.0.attn_norm.weight", 0, {8}, bytes_of(counting(8, 1)))
      .integer("gemma2.attention.sliding_window", 7)
      .real("gemma2.attn_logit_softcapping", 3);
  const auto model = open(file);
  const ModelConfig config = model->config().config;
  EXPECT_EQ(config.sliding_window, 7);
  EXPECT_EQ(config.attention_soft_cap, 3);
  EXPECT_EQ(config.logits_soft_cap, 30) << "that of all published models";
  EXPECT_EQ(config.attention_scale, 0.5) << "1 / sqrt(head_dim 4)";
  const Floats norm = read(GgufWeights(model, config), "model.layers.0.input_layernorm.weight", 8);
  EXPECT_EQ(norm, counting(8, 0)) << "the file has 1 + weight";
  const Json layers = {{"num_hidden_layers", 46}};
  EXPECT_EQ(open(file)->config(layers).config.attention_scale, 0.5) << "the file has one layer";
}

// The expected rows follow from the reshape and swapaxes in convert_hf_to_gguf.py.
TEST_F(GgufModelTest, puts_the_rows_of_q_and_k_back_in_order) {
  const auto model = open(model_file());
  const GgufWeights weights(model, model->config().config);
  const Floats q = read(weights, "model.layers.0.self_attn.q_proj.weight", 64);
  // The row of the file, for each row of the model.
  const std::vector<float> from = {0, 2, 1, 3, 4, 6, 5, 7};
  for (size_t row = 0; row < 8; ++row) {
    EXPECT_EQ(q[row * 8], 100 + from[row] * 8) << row;
    EXPECT_EQ(q[row * 8 + 7], 107 + from[row] * 8) << row;
  }
  EXPECT_EQ(read(weights, "model.layers.0.self_attn.q_proj.bias", 8), from);
  const Floats k = read(weights, "model.layers.0.self_attn.k_proj.weight", 32);
  EXPECT_EQ(k[8], 216);
  EXPECT_EQ(read(weights, "model.embed_tokens.weight", 32), counting(32, 0));

  const auto qwen = open(model_file("qwen2"));
  const GgufWeights as_stored(qwen, qwen->config().config);
  EXPECT_EQ(read(as_stored, "model.layers.0.self_attn.q_proj.weight", 64), counting(64, 100));
}

// A stored row in any format. The float16 scales of its blocks are between 0.25 and 2.
std::string stored_rows(BlockFormat format, int64_t rows, int64_t depth) {
  const BlockSize size = block_size(format);
  std::string bytes(static_cast<size_t>(rows * depth / size.num_elements) * size.bytes, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 89 + i / 256 + i / size.bytes * 7);
  }
  if (format == BlockFormat::mxfp4) {  // exponents of numbers of a usual size
    for (size_t i = 0; i < bytes.size(); i += size.bytes) {
      bytes[i] = static_cast<char>(110 + i / size.bytes % 18);
    }
    return bytes;
  }
  const auto set_scale = [&](size_t at) {
    for (size_t i = at; i < bytes.size(); i += size.bytes) {
      bytes[i + 1] = static_cast<char>(0x34 + i / size.bytes % 12);
    }
  };
  const bool has_scales_last =
      format == BlockFormat::q2_k || format == BlockFormat::q3_k || format == BlockFormat::q6_k;
  const bool has_two = format == BlockFormat::q2_k || format == BlockFormat::q4_k ||
                       format == BlockFormat::q5_k || format == BlockFormat::q4_1 ||
                       format == BlockFormat::q5_1;
  const size_t first = has_scales_last ? size.bytes - (has_two ? 4 : 2) : 0;
  set_scale(first);
  if (has_two) set_scale(first + 2);
  return bytes;
}

// The expected values are the dequantised ones, which other tests compare with the package `gguf`,
// placed as tensor/block_panels.h describes.
TEST_F(GgufModelTest, packs_the_values_that_it_would_read) {
  constexpr int64_t kRows = 24;  // not whole panels
  constexpr int64_t kDepth = 512;
  int num_formats = 0;
  for (uint32_t number = 0; number < 64; ++number) {
    const std::optional<BlockFormat> stored = block_format_of(number);
    if (!stored || !panel_format_of(*stored)) continue;
    ++num_formats;
    SCOPED_TRACE(block_format_name(*stored));
    const std::string blocks = stored_rows(*stored, kRows, kDepth);
    GgufBytes file = model_file();
    file.tensor("blk.1.attn_q.weight", number, {kRows, kDepth}, blocks)
        .tensor("blk.1.ffn_gate.weight", 39, {16, 32}, std::string(size_t{16} * 17, 'x'));
    const auto model = open(file);
    const GgufWeights weights(model, model->config().config);
    const std::string name = "model.layers.1.self_attn.q_proj.weight";
    const PanelFormat format = *panel_format_of(*stored);
    EXPECT_EQ(weights.panel_format(name), format);
    EXPECT_EQ(weights.panel_format("model.layers.1.mlp.gate_proj.weight"), PanelFormat::mxfp4);
    EXPECT_EQ(weights.panel_format("model.embed_tokens.weight"), std::nullopt);
    EXPECT_EQ(weights.formats_without_panels(), "");
    // The source that reports progress counts bytes of the file, and no more than all of them.
    uint64_t done = 0;
    const WatchedWeights watched(std::make_unique<GgufWeights>(model, model->config().config),
                                 [&](uint64_t so_far, uint64_t total) {
                                   done = so_far;
                                   EXPECT_LE(so_far, total);
                                 });
    EXPECT_EQ(watched.panel_format(name), format);
    const PanelPart part = {.format = format, .columns = kRows};
    std::vector<uint8_t> packed(static_cast<size_t>(packed_weight_bytes({&part, 1}, kDepth)), 0xAA);
    const PanelHeader header = make_panel_header({&part, 1}, kDepth);
    std::memcpy(packed.data(), &header, sizeof header);
    const auto panels = std::as_writable_bytes(std::span(packed)).subspan(kPanelHeaderBytes);
    watched.read_panels(name, panels);
    EXPECT_EQ(done, blocks.size());
    std::vector<std::byte> in_parts(panels.size(), std::byte{0xAA});
    const auto first = static_cast<size_t>(panel_bytes(format, kPanelColumns, kDepth));
    weights.read_panel_rows(name, {.first = 0, .count = 16}, std::span(in_parts).first(first));
    weights.read_panel_rows(
        name, {.first = 16, .count = kRows - 16}, std::span(in_parts).subspan(first));
    EXPECT_TRUE(std::ranges::equal(in_parts, panels));
    for (int i = 0; i < 3; ++i) watched.read_panels(name, panels);
    const Floats values = read(weights, name, kRows * kDepth);
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < kDepth; ++i) {
        // float32 rounds d * s * code - m * t twice.
        ASSERT_NEAR(panel_element(packed.data(), row, i),
                    values[static_cast<size_t>(row * kDepth + i)],
                    1e-6 * 2 * 64 * 64)
            << row << ", " << i;
      }
    }
  }
  EXPECT_EQ(num_formats, 13);
}

TEST_F(GgufModelTest, names_every_tensor_as_the_models_do) {
  const ModelConfig config = open(model_file("qwen3"))->config().config;
  EXPECT_EQ(name_of("blk.12.ffn_down.weight", config), "model.layers.12.mlp.down_proj.weight");
  EXPECT_EQ(name_of("blk.0.attn_k_norm.weight", config), "model.layers.0.self_attn.k_norm.weight");
  EXPECT_EQ(name_of("output.weight", config), "lm_head.weight");
  for (const char* unknown : {"blk.0.ssm_a", "blk.0.weight", "blk.", "", "x.weight", "."}) {
    EXPECT_EQ(name_of(unknown, config), "");
  }
}

// A tensor that nothing reads shows that the file belongs to another model. llama.cpp refuses it
// too.
TEST_F(GgufModelTest, refuses_tensors_that_the_model_does_not_have) {
  const auto message_with = [&](std::string_view name, std::string_view architecture) {
    GgufBytes file = model_file(architecture);
    file.tensor(name, 0, {4}, bytes_of(counting(4, 1)));
    const auto model = open(file);
    const ModelConfig config = model->config().config;
    return message_of([&] { static_cast<void>(GgufWeights(model, config)); });
  };
  for (const char* name :
       {"blk.0.attn_q_norm.weight", "blk.0.surprise.weight", "surprise", "blk.0.ffn_up.0.weight"}) {
    EXPECT_NE(message_with(name, "llama").find(std::string("E_UNKNOWN")), std::string::npos);
    EXPECT_NE(message_with(name, "llama").find(name), std::string::npos);
  }
  EXPECT_EQ(message_with("blk.0.attn_q_norm.weight", "qwen3"), "accepted");
  // Tables that the engine computes, and layers that the user has asked to leave out.
  EXPECT_EQ(message_with("blk.0.attn_rot_embd.weight", "llama"), "accepted");
  EXPECT_EQ(message_with("blk.1.attn_norm.weight", "llama"), "accepted");
}

TEST_F(GgufModelTest, joins_the_parts_of_a_split_model) {
  const auto part = [](uint32_t number, uint32_t count, uint32_t num_tensors) {
    GgufBytes file = number == 0 ? model_file() : GgufBytes();
    return file.integer("split.no", number)
        .integer("split.count", count)
        .integer("split.tensors.count", num_tensors);
  };
  GgufBytes second = part(1, 2, 5);
  second.tensor("output_norm.weight", 0, {8}, bytes_of(counting(8, 7)));
  const auto first_path = directory_.write("m-00001-of-00002.gguf", part(0, 2, 5).bytes());
  const auto second_path = directory_.write("m-00002-of-00002.gguf", second.bytes());
  const auto model = GgufModel::open(first_path);
  const GgufWeights weights(model, model->config().config);
  EXPECT_EQ(weights.names().size(), 5u);
  EXPECT_EQ(read(weights, "model.norm.weight", 8), counting(8, 7));

  const auto code = [](const std::filesystem::path& path) {
    return code_of([&] { static_cast<void>(GgufModel::open(path)); });
  };
  EXPECT_EQ(code(second_path), "E_SPLIT");
  directory_.write("m-00001-of-00002.gguf", part(0, 2, 9).bytes());
  EXPECT_EQ(code(first_path), "E_SPLIT");
  directory_.write("m-00001-of-00002.gguf", part(0, 2, 5).bytes());
  directory_.write("m-00002-of-00002.gguf", part(0, 2, 5).bytes());
  EXPECT_EQ(code(first_path), "E_SPLIT");
  std::filesystem::remove(second_path);
  EXPECT_EQ(code(first_path), "E_MISSING");
}

TEST_F(GgufModelTest, writes_a_tokenizer_and_names_what_it_cannot) {
  const Json tokenizer = parse_json(open(model_file())->tokenizer_json(), "tokenizer");
  EXPECT_EQ(tokenizer["model"]["vocab"]["ab"], 2);
  EXPECT_EQ(tokenizer["model"]["merges"], Json::array({"a b"}));
  EXPECT_EQ(tokenizer["added_tokens"][0]["content"], "<|im_end|>");
  const Json config = parse_json(open(model_file())->tokenizer_config_json(), "config");
  EXPECT_EQ(config["eos_token"], "ab");
  EXPECT_EQ(config["chat_template"][0]["template"], "{{ 1 }}");

  const auto tokenizer_file = [](std::string_view model, std::string_view pre) {
    return GgufBytes()
        .string("tokenizer.ggml.model", model)
        .string("tokenizer.ggml.pre", pre)
        .strings("tokenizer.ggml.tokens", {"a"});
  };
  EXPECT_NE(message_of_tokenizer(tokenizer_file("t5", "")).find("'t5' is not supported"),
            std::string::npos);
  EXPECT_NE(message_of_tokenizer(tokenizer_file("gpt2", "viking")).find("'viking'"),
            std::string::npos);
  GgufBytes types = tokenizer_file("gpt2", "qwen2");
  types.numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 1});
  EXPECT_NE(message_of_tokenizer(types).find("tokenizer.ggml.token_type"), std::string::npos);
  GgufBytes bytes;
  bytes.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "qwen2");
  bytes.strings("tokenizer.ggml.tokens", {"\xff"});
  EXPECT_NE(message_of_tokenizer(bytes).find("is not UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace reprise::weights::gguf
