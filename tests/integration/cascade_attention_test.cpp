#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/runner/model_runner.h"
#include "tests/support/source_dir.h"

// Requests that share a long prefix get the same answers with cascade attention as without, up to
// the last bit of every log-probability.
namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::DispatchReason;
using Tokens = std::vector<int32_t>;

struct CascadeLoad {
  size_t prefix_len;
  size_t num_prompts;
};

EngineArgs arguments(const std::string& mode, const CascadeLoad& load) {
  EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.hf_overrides = {{"max_position_embeddings", 16384}};
  args.max_num_seqs = static_cast<int32_t>(load.num_prompts);
  args.max_model_len = static_cast<int32_t>(load.prefix_len) + 128;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", mode}};
  return args;
}

Tokens cascade_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(100 + random() % 400);
  return tokens;
}

/// Prompts with the same beginning and endings of different lengths.
std::vector<Tokens> make_prompts(const CascadeLoad& load) {
  const Tokens prefix = cascade_tokens(load.prefix_len, 1);
  std::vector<Tokens> prompts;
  for (size_t i = 0; i < load.num_prompts; ++i) {
    Tokens prompt = prefix;
    const Tokens tail = cascade_tokens(1 + i * 7 % 40, static_cast<uint32_t>(10 + i));
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

sampling::SamplingParams params_of(int32_t max_tokens) {
  return {.temperature = 0.0F, .max_tokens = max_tokens, .ignore_eos = true, .logprobs = 3};
}

/// The answers to all prompts, after another request has put the prefix into the cache.
std::vector<api::RequestOutput> answers(LLM& llm, const CascadeLoad& load) {
  const std::vector<Tokens> prompts = make_prompts(load);
  (void)llm.generate_token_ids(std::span(prompts).first(1), params_of(1));
  return llm.generate_token_ids(prompts, params_of(12));
}

void expect_equal(const std::vector<api::RequestOutput>& actual,
                  const std::vector<api::RequestOutput>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(actual[i].output.token_ids, expected[i].output.token_ids);
    EXPECT_EQ(actual[i].output.logprobs, expected[i].output.logprobs);
  }
}

uint64_t num_cascade_steps(LLM& llm) { return llm.loaded().runner->num_cascade_steps(); }

TEST(CascadeAttention, changes_no_bit_of_an_answer_and_runs_in_pieces) {
  for (const CascadeLoad& load :
       {CascadeLoad{1024, 8}, CascadeLoad{2048, 16}, CascadeLoad{8192, 64}}) {
    SCOPED_TRACE(::testing::Message() << load.num_prompts << " x " << load.prefix_len);
    EngineArgs args = arguments("FULL_AND_PIECEWISE", load);
    LLM cascade(args);
    args.disable_cascade_attn = true;
    LLM plain(args);
    expect_equal(answers(cascade, load), answers(plain, load));
    EXPECT_GE(cascade.ledger().steps(DispatchReason::piecewise_cascade), 10U);
    EXPECT_GE(num_cascade_steps(cascade),
              cascade.ledger().steps(DispatchReason::piecewise_cascade));
    EXPECT_EQ(cascade.ledger().steps(CudagraphRuntimeMode::FULL), 0U);
    EXPECT_EQ(plain.ledger().steps(DispatchReason::piecewise_cascade), 0U);
    EXPECT_GE(plain.ledger().steps(CudagraphRuntimeMode::FULL), 10U);
    EXPECT_EQ(num_cascade_steps(plain), 0U);
  }
}

TEST(CascadeAttention, runs_eagerly_in_modes_without_pieces) {
  const CascadeLoad load = {1024, 8};
  for (const char* mode : {"FULL", "NONE", "FULL_DECODE_ONLY"}) {
    SCOPED_TRACE(mode);
    EngineArgs args = arguments(mode, load);
    LLM cascade(args);
    args.disable_cascade_attn = true;
    LLM plain(args);
    expect_equal(answers(cascade, load), answers(plain, load));
    EXPECT_GE(num_cascade_steps(cascade), 10U);
    const bool has_graphs = mode != std::string("NONE");
    EXPECT_EQ(cascade.ledger().steps(DispatchReason::cascade) >= 10U, has_graphs);
    EXPECT_GE(cascade.ledger().steps(CudagraphRuntimeMode::NONE), 10U);
  }
}

TEST(CascadeAttention, changes_no_bit_with_eight_bit_caches_chunked_prompts_and_other_backends) {
  const CascadeLoad load = {512, 12};
  for (const auto& [backend, cache] : {std::pair{"TRITON_ATTN", "fp8"},
                                       std::pair{"FLASH_ATTN", "auto"},
                                       std::pair{"UNIFIED", "int8_per_token_head"}}) {
    SCOPED_TRACE(backend);
    EngineArgs args = arguments("FULL_AND_PIECEWISE", load);
    args.attention_backend = backend;
    args.kv_cache_dtype = cache;
    args.max_num_batched_tokens = 48;
    args.async_scheduling = true;
    LLM cascade(args);
    args.disable_cascade_attn = true;
    LLM plain(args);
    expect_equal(answers(cascade, load), answers(plain, load));
    EXPECT_GT(num_cascade_steps(cascade), 5U);
  }
}

TEST(CascadeAttention, is_not_used_by_requests_without_a_common_prefix_nor_by_plans) {
  const CascadeLoad load = {512, 12};
  LLM llm(arguments("FULL_AND_PIECEWISE", load));
  std::vector<Tokens> prompts = make_prompts(load);
  (void)llm.generate_token_ids(std::span(prompts).first(1), params_of(1));
  prompts.back().front() = 99;
  (void)llm.generate_token_ids(prompts, params_of(8));
  EXPECT_EQ(num_cascade_steps(llm), 0U);
  EngineArgs planned = arguments("FULL_AND_PIECEWISE", load);
  planned.attention_backend = "FLASHINFER";
  LLM with_plans(planned);
  (void)answers(with_plans, load);
  EXPECT_EQ(num_cascade_steps(with_plans), 0U);
  EXPECT_GT(with_plans.ledger().steps(CudagraphRuntimeMode::FULL), 5U);
}

}  // namespace
}  // namespace reprise
