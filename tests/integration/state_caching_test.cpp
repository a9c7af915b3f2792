#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/engine/engine_core.h"
#include "tests/integration/goldens.h"
#include "tests/integration/random_load.h"
#include "tests/integration/tiny_engine.h"

// Prefix caching of models with recurrent layers: with copies of states in the cache, requests get
// the same tokens and the same bits of every log-probability as without a cache.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using testing::Answer;
using testing::Load;
using testing::Machine;
using testing::Spec;
using testing::TinyEngine;
using testing::Tokens;

constexpr int32_t kSnapshots = 12;

std::filesystem::path folder_of(const std::string& architecture) {
  return testing::golden_folder("architectures/" + architecture);
}

Tokens some_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(3 + random() % 90);
  return tokens;
}

/// A checkpoint of a family, with and without prefix caching.
class Family {
 public:
  Family(const std::filesystem::path& folder, CudagraphMode mode, int retention_interval = 0)
      : engine_({.mode = mode,
                 .max_num_tokens = 40,
                 .max_num_reqs = 3,
                 .num_blocks = 120,
                 .model = folder,
                 .num_state_snapshots = kSnapshots}),
        retention_interval_(retention_interval) {
    (void)engine_.runner().capture({});
  }

  [[nodiscard]] std::unique_ptr<engine::EngineCore> make_core(bool caches, bool is_async) {
    engine_.randomize_kv(11);  // nothing of an earlier core may remain
    return std::make_unique<engine::EngineCore>(
        engine_.runner(),
        engine::EngineCoreOptions{
            .scheduler = {.max_num_seqs = 3,
                          .max_num_batched_tokens = 40,
                          .max_model_len = 240,
                          .async_scheduling = is_async,
                          .prefix_cache_retention_interval = retention_interval_,
                          .vocab_size = static_cast<int>(engine_.config().vocab_size)},
            .enable_prefix_caching = caches,
            .num_state_snapshots = kSnapshots});
  }

 private:
  TinyEngine engine_;
  int retention_interval_;
};

struct Turn {
  Tokens tokens;
  std::vector<sampling::TokenLogprob> logprobs;
  int num_cached = 0;
};

/// Runs a request alone.
Turn ask(engine::EngineCore& core, const Tokens& prompt, const std::string& salt = "") {
  (void)core.add_request(prompt,
                         {.temperature = 0, .max_tokens = 13, .ignore_eos = true, .logprobs = 0},
                         {.cache_salt = salt});
  Turn turn;
  while (core.has_unfinished_requests()) {
    for (const auto& update : core.step()) {
      turn.num_cached = update.request->num_cached_tokens();
      if (!update.new_token_id) continue;
      turn.tokens.push_back(*update.new_token_id);
      turn.logprobs.push_back(update.sampled->logprob);
    }
  }
  return turn;
}

/// Three conversations of four turns, in rotation. Two of them have the same beginning.
std::vector<Turn> chat(engine::EngineCore& core) {
  std::vector<Turn> turns;
  std::vector<Tokens> texts = {some_tokens(37, 1), some_tokens(37, 1), some_tokens(50, 2)};
  for (uint32_t turn = 0; turn < 4; ++turn) {
    for (uint32_t who = 0; who < 3; ++who) {
      Tokens& text = texts[who];
      const Tokens question = some_tokens(5 + 4 * turn + 7 * who, 100 + 10 * turn + who);
      text.insert(text.end(), question.begin(), question.end());
      turns.push_back(ask(core, text));
      text.insert(text.end(), turns.back().tokens.begin(), turns.back().tokens.end());
    }
  }
  return turns;
}

using Parameter = std::tuple<const char*, CudagraphMode>;
class StateCaching : public ::testing::TestWithParam<Parameter> {};

TEST_P(StateCaching, changes_no_bit_of_a_chat_and_computes_only_new_turns) {
  Family family(folder_of(std::get<0>(GetParam())), std::get<1>(GetParam()));
  const auto plain = family.make_core(/*caches=*/false, /*is_async=*/false);
  const std::vector<Turn> expected = chat(*plain);
  for (const bool is_async : {false, true}) {
    const auto core = family.make_core(/*caches=*/true, is_async);
    const std::vector<Turn> turns = chat(*core);
    int num_cached = 0;
    for (size_t i = 0; i < turns.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_EQ(turns[i].tokens, expected[i].tokens);
      ASSERT_EQ(turns[i].logprobs, expected[i].logprobs);
      EXPECT_EQ(expected[i].num_cached, 0);
      EXPECT_EQ(turns[i].num_cached % TinyEngine::kBlockSize, 0);
      // The previous answer was cached up to its last block end.
      if (i >= 3) {
        EXPECT_GT(turns[i].num_cached, 32);
      }
      num_cached += turns[i].num_cached;
    }
    // The second conversation shows where prompts branch, but its first turn has to compute
    // everything.
    EXPECT_EQ(turns[1].num_cached, 32) << "both begin with 37 equal tokens";
    EXPECT_GT(num_cached, 700);
    EXPECT_GT(core->scheduler().prefix_cache_stats().states_restored, 9U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    families,
    StateCaching,
    ::testing::Values(Parameter{"mamba", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"mamba2", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"mamba2", CudagraphMode::PIECEWISE},
                      Parameter{"mamba2", CudagraphMode::NONE},
                      Parameter{"bamba", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"falcon-h1", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"falcon-h1", CudagraphMode::PIECEWISE},
                      Parameter{"granite-moe-hybrid", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"qwen3-next", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"qwen3-next", CudagraphMode::NONE},
                      Parameter{"qwen3_5", CudagraphMode::FULL_AND_PIECEWISE},
                      Parameter{"lfm2", CudagraphMode::FULL_AND_PIECEWISE}),
    [](const auto& param_info) {
      std::string name = std::get<0>(param_info.param);
      std::ranges::replace(name, '-', '_');
      return name + "_" + std::string(to_string(std::get<1>(param_info.param)));
    });

TEST(StateCachingKeys, keep_salts_apart) {
  Family family(folder_of("lfm2"), CudagraphMode::FULL_AND_PIECEWISE);
  const auto core = family.make_core(true, false);
  const Tokens prompt = some_tokens(40, 5);
  EXPECT_EQ(ask(*core, prompt, "mine").num_cached, 0);
  EXPECT_EQ(ask(*core, prompt, "yours").num_cached, 0);
  EXPECT_EQ(ask(*core, prompt, "mine").num_cached, 32);
}

TEST(StateCachingIntervals, keep_states_inside_of_prompts) {
  const Tokens prompt = some_tokens(100, 6);
  Tokens branch(prompt.begin(), prompt.begin() + 70);
  branch.push_back(1);
  for (const int interval : {0, 32}) {
    Family family(folder_of("mamba2"), CudagraphMode::FULL_AND_PIECEWISE, interval);
    const auto core = family.make_core(true, false);
    const Turn first = ask(*core, branch);
    EXPECT_TRUE(core->reset_prefix_cache());
    (void)ask(*core, prompt);
    const Turn turn = ask(*core, branch);
    EXPECT_EQ(turn.num_cached, interval == 0 ? 0 : 64);
    EXPECT_EQ(turn.tokens, first.tokens);
    // The branch has shown where prompts differ, so its copy of the states serves the next prompt.
    EXPECT_EQ(ask(*core, branch).num_cached, 64);
  }
}

/// How many tokens a second request with the same prompt finds in the cache.
int num_found(api::EngineArgs args, const char* config) {
  args.model = testing::bundled_model();
  args.load_format = api::LoadFormat::dummy;
  args.hf_overrides = Json::parse(config);
  args.max_num_seqs = 4;
  args.num_threads = 1;
  api::LLM llm(std::move(args));
  const Tokens prompt = some_tokens(70, 3);
  const sampling::SamplingParams params = {.temperature = 0, .max_tokens = 3};
  (void)llm.generate_token_ids(std::span(&prompt, 1), params);
  return llm.generate_token_ids(std::span(&prompt, 1), params).front().num_cached_tokens;
}

TEST(StateCachingOptions, are_those_of_vllm) {
  EXPECT_EQ(num_found({}, testing::kTinyBambaConfig), 64);
  EXPECT_EQ(num_found({}, testing::kTinyMambaConfig), 0) << "off for models without attention";
  EXPECT_EQ(num_found({.enable_prefix_caching = true}, testing::kTinyMambaConfig), 64);
  EXPECT_EQ(num_found({.mamba_cache_mode = "none"}, testing::kTinyBambaConfig), 0);
  EXPECT_EQ(num_found({.enable_prefix_caching = false}, testing::kTinyBambaConfig), 0);
}

/// Tiny models with the vocabulary of the bundled tokenizer.
std::string with_vocabulary(std::string config) {
  const std::string_view from = R"("vocab_size": 97)";
  config.replace(config.find(from), from.size(), R"("vocab_size": 512)");
  return config;
}

class RandomStates : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RandomStates, answers_are_those_without_a_cache_while_states_make_room_for_others) {
  Machine machine({.config = with_vocabulary(GetParam().second), .num_state_snapshots = 5});
  Load load(/*seed=*/21, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 120; ++i) specs.push_back(load.next(i));
  engine::EngineCoreOptions options = machine.core_options();
  options.enable_prefix_caching = false;
  const auto plain = machine.make_core(options);
  const std::vector<Answer> expected = machine.answer(*plain, specs);
  options.enable_prefix_caching = true;
  for (const bool is_async : {false, true}) {
    options.scheduler.async_scheduling = is_async;
    const auto core = machine.make_core(options);
    const std::vector<Answer> answers = machine.answer(*core, specs);
    for (size_t i = 0; i < specs.size(); ++i) ASSERT_EQ(answers[i], expected[i]) << "request " << i;
    const scheduler::PrefixCacheStats& stats = core->scheduler().prefix_cache_stats();
    EXPECT_GT(stats.states_restored, 10U);
    EXPECT_GT(stats.states_saved, 100U) << "many more than there are slots";
    EXPECT_GT(core->scheduler().num_preemptions(), 0);
    fmt::print("{} states saved, {} restored, {} tokens found, {} preemptions\n",
               stats.states_saved,
               stats.states_restored,
               stats.hits,
               core->scheduler().num_preemptions());
  }
}

TEST_P(RandomStates, take_no_token_twice_when_a_constraint_is_slow) {
  Machine machine({.config = with_vocabulary(GetParam().second)});
  Load load(/*seed=*/22, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 40; ++i) {
    specs.push_back(load.next(i));
    specs.back().constraint_length = 9;
  }
  engine::EngineCoreOptions options = machine.core_options();
  options.enable_prefix_caching = false;
  const auto unhurried = machine.make_core(options);
  const std::vector<Answer> expected = machine.answer(*unhurried, specs);
  options.scheduler.constraint_time_per_step = std::chrono::nanoseconds(0);
  for (const bool is_async : {false, true}) {
    options.scheduler.async_scheduling = is_async;
    const auto core = machine.make_core(options);
    const std::vector<Answer> answers = machine.answer(*core, specs);
    for (size_t i = 0; i < specs.size(); ++i) ASSERT_EQ(answers[i], expected[i]) << "request " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(models,
                         RandomStates,
                         ::testing::Values(std::pair{"mamba", testing::kTinyMambaConfig},
                                           std::pair{"mamba2", testing::kTinyMamba2Config},
                                           std::pair{"bamba", testing::kTinyBambaConfig},
                                           std::pair{"falcon_h1", testing::kTinyFalconH1Config},
                                           std::pair{"qwen3_next", testing::kTinyQwen3NextConfig},
                                           std::pair{"lfm2", testing::kTinyLfm2Config}),
                         [](const auto& param_info) {
                           return std::string(param_info.param.first);
                         });

}  // namespace
}  // namespace reprise
