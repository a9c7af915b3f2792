#include <gtest/gtest.h>

#include <future>
#include <random>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/api/llm.h"
#include "tests/support/source_dir.h"

// With cached prefixes the bundled model gives the same results as without, up to the last bit of
// every log-probability, in each mode.
namespace reprise {
namespace {

using api::EngineArgs;
using api::LLM;
using Tokens = std::vector<int32_t>;

constexpr int kBlockSize = 16;

EngineArgs cached_arguments(const std::string& mode, bool enable_prefix_caching) {
  EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.enable_prefix_caching = enable_prefix_caching;
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 32;
  args.max_model_len = 192;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", mode}};
  return args;
}

Tokens some_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(100 + random() % 400);
  return tokens;
}

/// Prompts that share 0 to 64 tokens with an earlier prompt, at block ends and around them.
std::vector<Tokens> make_prompts() {
  const Tokens stem = some_tokens(64, 1);
  std::vector<Tokens> prompts;
  uint32_t seed = 10;
  for (const size_t shared : {64, 64, 15, 16, 17, 31, 32, 33, 48, 63, 64, 0}) {
    for (const size_t own : {0, 1, 20}) {
      Tokens prompt(stem.begin(), stem.begin() + static_cast<std::ptrdiff_t>(shared));
      const Tokens tail = some_tokens(own, seed++);
      prompt.insert(prompt.end(), tail.begin(), tail.end());
      if (!prompt.empty()) prompts.push_back(std::move(prompt));
    }
  }
  return prompts;
}

sampling::SamplingParams params_of(size_t request) {
  return {.temperature = request % 2 == 0 ? 0.0F : 0.8F,
          .seed = static_cast<int64_t>(request),
          .max_tokens = 20,
          .ignore_eos = true,
          .logprobs = 3};
}

api::RequestOutput run(LLM& llm, const Tokens& prompt, const sampling::SamplingParams& params) {
  return std::move(llm.generate_token_ids(std::span(&prompt, 1), params).front());
}

class EachMode : public ::testing::TestWithParam<std::string> {};

TEST_P(EachMode, cached_prefixes_change_no_bit_of_an_answer) {
  LLM cached(cached_arguments(GetParam(), true));
  LLM plain(cached_arguments(GetParam(), false));
  const std::vector<Tokens> prompts = make_prompts();
  int64_t num_cached_tokens = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(i);
    const api::RequestOutput expected = run(plain, prompts[i], params_of(i));
    const api::RequestOutput actual = run(cached, prompts[i], params_of(i));
    EXPECT_EQ(actual.output.token_ids, expected.output.token_ids);
    EXPECT_EQ(actual.output.text, expected.output.text);
    EXPECT_EQ(actual.output.logprobs, expected.output.logprobs);
    EXPECT_EQ(expected.num_cached_tokens, 0);
    EXPECT_EQ(actual.num_cached_tokens % kBlockSize, 0);
    EXPECT_LT(actual.num_cached_tokens, static_cast<int32_t>(prompts[i].size()));
    num_cached_tokens += actual.num_cached_tokens;
  }
  EXPECT_GT(num_cached_tokens, 700);
}

TEST_P(EachMode, answers_are_cached_too_and_a_batch_shares_its_stem) {
  LLM cached(cached_arguments(GetParam(), true));
  LLM plain(cached_arguments(GetParam(), false));
  const Tokens prompt = some_tokens(30, 5);
  Tokens longer = prompt;
  const Tokens answer = run(cached, prompt, params_of(0)).output.token_ids;
  longer.insert(longer.end(), answer.begin(), answer.end());  // 50 tokens, 49 of them computed
  const std::vector<Tokens> batch(6, longer);
  const std::vector<api::RequestOutput> actual = cached.generate_token_ids(batch, params_of(0));
  const std::vector<api::RequestOutput> expected = plain.generate_token_ids(batch, params_of(0));
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(actual[i].num_cached_tokens, 48);
    EXPECT_EQ(actual[i].output.token_ids, expected[i].output.token_ids);
    EXPECT_EQ(actual[i].output.logprobs, expected[i].output.logprobs);
  }
}

INSTANTIATE_TEST_SUITE_P(PrefixCaching,
                         EachMode,
                         ::testing::Values("FULL", "PIECEWISE", "FULL_AND_PIECEWISE", "NONE"),
                         [](const auto& test) { return test.param; });

TEST(PrefixCaching, prompts_whose_logprobs_are_wanted_are_computed) {
  LLM cached(cached_arguments("FULL_AND_PIECEWISE", true));
  const Tokens prompt = some_tokens(50, 6);
  sampling::SamplingParams params = params_of(0);
  (void)run(cached, prompt, params);
  params.prompt_logprobs = 2;
  const api::RequestOutput with_logprobs = run(cached, prompt, params);
  EXPECT_EQ(with_logprobs.num_cached_tokens, 0);
  EXPECT_EQ(with_logprobs.prompt_logprobs.size(), prompt.size() - 1);
  params.prompt_logprobs.reset();
  EXPECT_EQ(run(cached, prompt, params).num_cached_tokens, 48);
}

/// Runs a request to its end and returns its last output.
engine::OutputDelta run(api::AsyncEngine& engine, const Tokens& prompt, const std::string& salt) {
  std::promise<engine::OutputDelta> last;
  (void)engine.submit(prompt,
                      params_of(0),
                      [&last](const engine::OutputDelta& output) {
                        if (output.finished) last.set_value(output);
                      },
                      {.cache_salt = salt});
  return last.get_future().get();
}

TEST(PrefixCaching, is_isolated_by_salt_counted_and_reset) {
  api::AsyncEngine engine(cached_arguments("FULL_AND_PIECEWISE", true));
  const Tokens prompt = some_tokens(50, 7);
  EXPECT_EQ(run(engine, prompt, "").num_cached_tokens, 0);
  EXPECT_EQ(run(engine, prompt, "mine").num_cached_tokens, 0);
  EXPECT_EQ(run(engine, prompt, "yours").num_cached_tokens, 0);
  EXPECT_EQ(run(engine, prompt, "mine").num_cached_tokens, 48);
  EXPECT_EQ(run(engine, prompt, "").num_cached_tokens, 48);
  EXPECT_EQ(engine.stats().prefix_cache_queries, 250U);
  EXPECT_EQ(engine.stats().prefix_cache_hits, 96U);
  EXPECT_TRUE(engine.reset_prefix_cache());
  EXPECT_EQ(run(engine, prompt, "").num_cached_tokens, 0);
}

TEST(PrefixCaching, is_not_reset_while_a_request_runs) {
  api::AsyncEngine engine(cached_arguments("FULL_AND_PIECEWISE", true));
  std::promise<void> has_begun;
  std::promise<void> may_go_on;
  std::promise<void> has_ended;
  int num_outputs = 0;
  const scheduler::RequestId id =
      engine.submit(some_tokens(20, 8),
                    {.temperature = 0, .max_tokens = 100, .ignore_eos = true},
                    [&](const engine::OutputDelta& output) {
                      if (num_outputs++ == 0) {
                        has_begun.set_value();
                        may_go_on.get_future()
                            .wait();  // the request must not finish before the reset is requested
                      }
                      if (output.finished) has_ended.set_value();
                    });
  has_begun.get_future().wait();
  std::future<bool> reset =
      std::async(std::launch::async, [&] { return engine.reset_prefix_cache(); });
  may_go_on.set_value();
  EXPECT_FALSE(reset.get());
  engine.abort(id);
  has_ended.get_future().wait();
  EXPECT_TRUE(engine.reset_prefix_cache());
}

}  // namespace
}  // namespace reprise
