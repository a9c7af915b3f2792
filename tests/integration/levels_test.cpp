#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/integration/test_batch.h"
#include "tests/integration/tiny_engine.h"

// Invariant 8 in a strong form, because the passes are exact: a level changes how a step is
// computed, but no bit of its result. Programs run eagerly here; replay_equals_eager_test.cpp tests
// that replays equal eager steps within a level.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

constexpr const char* kTinyLlamaConfig = R"({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
  "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 4,
  "num_key_value_heads": 4, "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr const char* kTinyQwen2Config = R"({
  "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 56,
  "intermediate_size": 100, "num_hidden_layers": 2, "num_attention_heads": 7,
  "num_key_value_heads": 1, "vocab_size": 97, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "hidden_act": "silu"})";
constexpr const char* kTinyMistralConfig = R"({
  "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 97, "max_position_embeddings": 256,
  "sliding_window": 19, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

struct Variant {
  const char* name;
  CompilationMode level;
  const char* backend = "";
  bool graph_partition = false;
};
const Variant kVariants[] = {
    {"interpreter", CompilationMode::STOCK_TORCH_COMPILE},
    {"stock", CompilationMode::STOCK_TORCH_COMPILE, "inductor"},
    {"once", CompilationMode::DYNAMO_TRACE_ONCE},
    {"once_eager", CompilationMode::DYNAMO_TRACE_ONCE, "eager"},
    {"pieces", CompilationMode::VLLM_COMPILE},
    {"pieces_eager", CompilationMode::VLLM_COMPILE, "eager"},
    {"partition_after_passes", CompilationMode::VLLM_COMPILE, "", true},
};

void expect_the_bits_of_level_0(const char* config, kernels::Isa isa, DType dtype) {
  const auto options = [&] {
    TinyEngineOptions common;
    common.mode = CudagraphMode::NONE;
    common.config = config;
    common.isa = isa;
    common.dtype = dtype;
    return common;
  };
  TinyEngine eager(options());
  eager.randomize_kv(21);
  const std::vector<std::byte> kv_before = eager.save_kv();
  for (const Variant& variant : kVariants) {
    TinyEngineOptions wanted = options();
    wanted.level = variant.level;
    wanted.compilation.backend = variant.backend;
    wanted.compilation.use_inductor_graph_partition = variant.graph_partition;
    TinyEngine compiled(wanted);
    ASSERT_GT(compiled.compilation().counter.num_graphs_seen, 0U) << variant.name;
    // A common plan for all pieces needs hardly more memory than the values that are needed at the
    // same time.
    EXPECT_LE(10 * compiled.compilation().planned_bytes_per_token,
              11 * compiled.compilation().live_bytes_per_token)
        << variant.name;
    uint32_t seed = 1;
    for (Mix mix : {Mix::prefill, Mix::uniform_decode, Mix::mixed, Mix::chunked}) {
      for (int32_t num_tokens : {1, 2, 7, 16, 33, 64}) {
        if (mix == Mix::uniform_decode && num_tokens > 16) continue;
        const TestBatch batch(mix, num_tokens, 16, seed++);
        const cudagraph::Decision decision{.descriptor = {.num_tokens = num_tokens}};
        const auto outcome_of = [&](TinyEngine& engine) {
          engine.restore_kv(kv_before);
          std::vector<float> logits = engine.logits(
              engine.runner().run(batch.requests(), decision, CudagraphRuntimeMode::NONE));
          return std::pair(std::move(logits), engine.save_kv());
        };
        const auto expected = outcome_of(eager);
        const auto actual = outcome_of(compiled);
        for (float logit : actual.first) ASSERT_TRUE(std::isfinite(logit));
        ASSERT_TRUE(actual == expected)
            << variant.name << ", " << to_string(mix) << " of " << num_tokens << " tokens";
      }
    }
  }
}

class Levels : public ::testing::TestWithParam<std::tuple<const char*, kernels::Isa, DType>> {};

TEST_P(Levels, compute_the_bits_of_level_0) {
  const auto [config, isa, dtype] = GetParam();
  expect_the_bits_of_level_0(config, isa, dtype);
}

// The head is wider than the scratch of the fused product: the pass asks the kernels first and then
// fuses less.
TEST(WideHeads, compute_the_bits_of_level_0) {
  constexpr const char* kConfig = R"({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 288, "vocab_size": 97, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
    "hidden_act": "silu"})";
  expect_the_bits_of_level_0(
      kConfig, kernels::best_isa(device::detect_cpu_features()), DType::bf16);
}

std::string name_of(const char* config) {
  const std::string text = config;
  const size_t begin = text.find("\"model_type\": \"") + 15;
  return text.substr(begin, text.find('"', begin) - begin);
}

INSTANTIATE_TEST_SUITE_P(
    models,
    Levels,
    ::testing::Combine(::testing::Values(testing::kTinyQwen3Config,
                                         kTinyLlamaConfig,
                                         kTinyQwen2Config,
                                         kTinyMistralConfig),
                       ::testing::ValuesIn(kernels::supported_isas(device::detect_cpu_features())),
                       ::testing::Values(DType::bf16, DType::f32, DType::f16)),
    [](const auto& param_info) {
      return fmt::format("{}_{}_{}",
                         name_of(std::get<0>(param_info.param)),
                         kernels::isa_name(std::get<1>(param_info.param)),
                         dtype_name(std::get<2>(param_info.param)));
    });

}  // namespace
}  // namespace reprise
