#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "tests/integration/step_outcome.h"
#include "tests/support/source_dir.h"

// KV caches of eight bits in whole engines. The kernels have their own test
// (kernels/attention/quantized_cache_test.cpp).
namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::kMixes;
using testing::Mix;
using testing::Outcome;
using testing::TestBatch;
using testing::TinyEngine;
using Tokens = std::vector<int32_t>;

class EachCacheType : public ::testing::TestWithParam<std::string> {};

// Each step has the same bits in a replay and in an eager run.
void expect_replays_eager_bits(const testing::TinyEngineOptions& options) {
  TinyEngine engine(options);
  (void)engine.runner().capture({});
  engine.randomize_kv(11);
  const std::vector<std::byte> kv_before = engine.save_kv();
  uint32_t seed = 100;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : {1, 3, 8, 15, 16, 33}) {
      if (mix == Mix::uniform_decode && num_tokens > 16) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(eager, replay, describe(mix, num_tokens, decision));
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST_P(EachCacheType, replays_the_bits_of_an_eager_run_in_every_mode_and_level) {
  for (CudagraphMode mode :
       {CudagraphMode::FULL, CudagraphMode::PIECEWISE, CudagraphMode::FULL_AND_PIECEWISE}) {
    for (CompilationMode level : testing::kLevels) {
      expect_replays_eager_bits({.mode = mode, .level = level, .kv_cache_dtype = GetParam()});
      if (HasFailure()) return;
    }
  }
}

// Attention with sinks reads caches of the same types.
constexpr const char* kTinyGptOssConfig = R"({
  "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 32,
  "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 2,
  "vocab_size": 97, "max_position_embeddings": 256, "sliding_window": 9,
  "layer_types": ["sliding_attention", "full_attention"], "attention_bias": true,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

TEST_P(EachCacheType, replays_the_bits_of_an_eager_run_of_layers_with_sinks) {
  expect_replays_eager_bits({.level = CompilationMode::VLLM_COMPILE,
                             .kv_cache_dtype = GetParam(),
                             .config = kTinyGptOssConfig});
}

EngineArgs arguments(const std::string& kv_cache_dtype) {
  EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.kv_cache_dtype = kv_cache_dtype;
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 32;
  args.max_model_len = 192;
  args.num_threads = 2;
  return args;
}

Tokens prompt_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(100 + random() % 400);
  return tokens;
}

sampling::SamplingParams greedy(int max_tokens) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true, .logprobs = 2};
}

std::vector<Tokens> tokens_of(const std::vector<api::RequestOutput>& answers) {
  std::vector<Tokens> tokens;
  for (const api::RequestOutput& answer : answers) {
    tokens.emplace_back(answer.output.token_ids.begin(), answer.output.token_ids.end());
  }
  return tokens;
}

TEST_P(EachCacheType, gives_the_same_tokens_from_cached_prefixes_and_after_preemption) {
  const Tokens stem = prompt_tokens(40, 1);
  std::vector<Tokens> prompts;
  for (uint32_t i = 0; i < 8; ++i) {
    Tokens prompt = stem;
    for (int32_t token : prompt_tokens(3 + i, 10 + i)) prompt.push_back(token);
    prompts.push_back(prompt);
  }

  EngineArgs plain = arguments(GetParam());
  plain.enable_prefix_caching = false;
  LLM without(plain);
  std::vector<Tokens> expected;
  for (const Tokens& prompt : prompts) {
    expected.push_back(
        tokens_of(without.generate_token_ids(std::span(&prompt, 1), greedy(40))).front());
  }
  // Room for about two requests of 90 tokens, so that four at a time are preempted.
  EngineArgs scarce = arguments(GetParam());
  scarce.num_gpu_blocks_override = 14;
  LLM with(scarce);
  EXPECT_EQ(tokens_of(with.generate_token_ids(prompts, greedy(40))), expected);
}

TEST_P(EachCacheType, holds_about_twice_as_many_tokens_in_the_same_memory) {
  EngineArgs args = arguments("auto");
  args.kv_cache_memory_bytes = 1 << 20;
  args.max_num_seqs = 256;
  args.max_num_batched_tokens = 512;
  const int64_t numbers = LLM(args).startup_report().num_kv_blocks;
  args.kv_cache_dtype = GetParam();
  LLM llm(args);
  const double head_dim = 32;
  const double row = head_dim + (GetParam().ends_with("per_token_head") ? 4 : 0);
  EXPECT_NEAR(static_cast<double>(llm.startup_report().num_kv_blocks),
              static_cast<double>(numbers) * 2 * head_dim / row,
              2.0);
  EXPECT_LE(llm.startup_report().kv_cache_bytes, size_t{1} << 20);
  EXPECT_EQ(llm.startup_report().kv_cache_dtype, GetParam());
}

// Where the two best candidates are not close, the token is the same as with an unquantised cache.
TEST_P(EachCacheType, chooses_the_tokens_of_a_cache_of_numbers_where_the_margin_is_large) {
  EngineArgs args = arguments("auto");
  args.dtype = "float32";
  LLM numbers(args);
  args.kv_cache_dtype = GetParam();
  LLM llm(args);
  // In nats; float8 E5M2 has only two bits of mantissa.
  const float margin = GetParam() == "fp8_e5m2" ? 1.0F : 0.5F;
  int compared = 0;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const Tokens prompt = prompt_tokens(30, seed);
    const auto want = numbers.generate_token_ids(std::span(&prompt, 1), greedy(24)).front();
    const auto got = llm.generate_token_ids(std::span(&prompt, 1), greedy(24)).front();
    for (size_t i = 0; i < want.output.token_ids.size(); ++i) {
      if (got.output.token_ids[i] == want.output.token_ids[i]) {
        ++compared;
        continue;
      }
      const auto& top = want.output.logprobs[i].top;
      EXPECT_LT(top[0].logprob - top[1].logprob, margin) << "prompt " << seed << ", token " << i;
      break;  // the answers go separate ways
    }
  }
  EXPECT_GT(compared, 60);
}

INSTANTIATE_TEST_SUITE_P(
    CacheTypes,
    EachCacheType,
    ::testing::Values("fp8", "fp8_e5m2", "fp8_per_token_head", "int8_per_token_head"),
    [](const auto& param_info) { return std::string(param_info.param); });

void expect_refused(const EngineArgs& args, const std::string& part) {
  try {
    LLM llm(args);
    FAIL() << "expected: " << part;
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(KvCacheDtype, is_refused_by_name_where_vllm_refuses_it) {
  expect_refused(arguments("int8"), "is not one of auto, float16");
  expect_refused(arguments("nvfp4"), "--kv-cache-dtype");
  expect_refused(arguments("float16"), "needs --dtype float16");
  EngineArgs flash = arguments("int8_per_token_head");
  flash.attention_backend = "FLASH_ATTN";
  expect_refused(flash, "use --attention-backend UNIFIED or TRITON_ATTN");
  flash.kv_cache_dtype = "fp8";
  flash.flash_attn_version = 2;
  expect_refused(flash, "the backend FLASH_ATTN 2 does not take fp8");
  EngineArgs planned = arguments("fp8_per_token_head");
  planned.attention_backend = "FLASHINFER";
  expect_refused(planned, "FLASHINFER does not take");
  planned.kv_cache_dtype = "fp8_e5m2";
  LLM accepted(planned);
  EXPECT_EQ(accepted.startup_report().kv_cache_dtype, "fp8_e5m2");
}

}  // namespace
}  // namespace reprise
