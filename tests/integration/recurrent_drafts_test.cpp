#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/engine/engine_core.h"
#include "reprise/speculative/ngram_drafter.h"
#include "tests/integration/goldens.h"
#include "tests/integration/knowing_drafter.h"
#include "tests/integration/random_load.h"
#include "tests/integration/step_outcome.h"

// Draft tokens for models with recurrent layers, whose states go back to the last accepted token.
// The expected answers are those of the same load without drafts, and must be equal bit for bit.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::DispatchReason;
using testing::Answer;
using testing::Load;
using testing::Machine;
using testing::PatternDrafter;
using testing::Spec;
using testing::Tokens;

constexpr int32_t kNumFamilyDrafts = 4;
constexpr int32_t kDraftedSnapshots = 9;

struct DraftedFamily {
  const char* name;
  const char* config;  // nullptr: the config of the golden checkpoint of Kimi Linear
};
const DraftedFamily kFamilies[] = {{"mamba", testing::kTinyMambaConfig},
                                   {"mamba2", testing::kTinyMamba2Config},
                                   {"bamba", testing::kTinyBambaConfig},
                                   {"falcon_h1", testing::kTinyFalconH1Config},
                                   {"qwen3_next", testing::kTinyQwen3NextConfig},
                                   {"lfm2", testing::kTinyLfm2Config},
                                   {"kimi_linear", nullptr}};

/// The family's config with the vocabulary of the bundled model, whose tokenizer writes the
/// answers.
std::string config_of(const DraftedFamily& family) {
  std::ifstream golden(testing::golden_folder("architectures/kimi-linear") / "config.json");
  Json config = family.config == nullptr ? Json::parse(golden) : Json::parse(family.config);
  config["vocab_size"] = 1024;
  return config.dump();
}

std::vector<Spec> make_family_specs(uint32_t seed, int count) {
  Load load(seed, 1024);
  std::vector<Spec> specs;
  for (int i = 0; i < count; ++i) {
    specs.push_back(load.next(i));
    specs.back().abort_after = 0;
  }
  return specs;
}

std::vector<Tokens> known_tokens(const std::vector<Spec>& specs,
                                 const std::vector<Answer>& answers) {
  std::vector<Tokens> known;
  for (size_t i = 0; i < specs.size(); ++i) {
    known.push_back(specs[i].prompt);
    const Tokens& answer = answers[i].token_ids;
    known.back().insert(known.back().end(), answer.begin(), answer.end());
  }
  return known;
}

/// Answers a load with right and wrong drafts, and without drafts.
void expect_no_change(const testing::MachineOptions& options, int count) {
  Machine machine(options);
  const std::vector<Spec> specs = make_family_specs(/*seed=*/5, count);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  testing::KnowingDrafter drafter(known_tokens(specs, expected));
  const auto core = machine.make_core(machine.core_options(drafter));
  expect_equal(machine.answer(*core, specs), expected);
  // Checks that the load reaches what this test is written for.
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  EXPECT_GT(stats.num_accepted_tokens, static_cast<uint64_t>(2 * count));
  EXPECT_GT(stats.num_draft_tokens, stats.num_accepted_tokens + static_cast<uint64_t>(count / 2));
  EXPECT_GT(core->scheduler().num_preemptions(), 0);
  const scheduler::PrefixCacheStats& cached = core->scheduler().prefix_cache_stats();
  EXPECT_GT(cached.states_saved, 0U);
  EXPECT_GT(cached.states_restored, 0U);
  EXPECT_EQ(core->counters().num_failed_steps, 0U);
  EXPECT_EQ(core->kv_cache_manager().num_free_state_reqs(), Machine::kMaxNumReqs);
  fmt::print(
      "{} tokens in {} steps; {} of {} draft tokens accepted; {} states saved, {} restored\n",
      core->counters().generation_tokens,
      core->counters().num_steps,
      stats.num_accepted_tokens,
      stats.num_draft_tokens,
      cached.states_saved,
      cached.states_restored);
}

class RecurrentDrafts : public ::testing::TestWithParam<std::tuple<DraftedFamily, CudagraphMode>> {
};

TEST_P(RecurrentDrafts, change_nothing_that_any_request_is_told) {
  const auto& [family, mode] = GetParam();
  expect_no_change({.mode = mode,
                    .num_speculative_tokens = kNumFamilyDrafts,
                    .config = config_of(family),
                    .num_state_snapshots = kDraftedSnapshots},
                   60);
}

INSTANTIATE_TEST_SUITE_P(families_and_modes,
                         RecurrentDrafts,
                         ::testing::Combine(::testing::ValuesIn(kFamilies),
                                            ::testing::ValuesIn(testing::kModes)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              std::get<0>(param_info.param).name,
                                              to_string(std::get<1>(param_info.param)));
                         });

TEST(RecurrentDraftsAtLevels, change_nothing_that_any_request_is_told) {
  for (const DraftedFamily& family : kFamilies) {
    SCOPED_TRACE(family.name);
    expect_no_change({.num_speculative_tokens = kNumFamilyDrafts,
                      .level = config::CompilationMode::VLLM_COMPILE,
                      .config = config_of(family),
                      .num_state_snapshots = kDraftedSnapshots},
                     40);
  }
}

// Each replay is compared with an eager run of the same step, before which the states are restored.
TEST(RecurrentDraftsUnderWatch, change_no_state_that_an_eager_step_leaves_as_it_is) {
  for (const DraftedFamily& family : kFamilies) {
    SCOPED_TRACE(family.name);
    Machine machine({.num_speculative_tokens = kNumFamilyDrafts,
                     .config = config_of(family),
                     .num_state_snapshots = kDraftedSnapshots,
                     .verify_graphs = cudagraph::VerifyGraphs::strict,
                     .shadow_rate = 1});
    EXPECT_TRUE(machine.runner().retired_graphs().empty()) << "a made-up step broke a rule";
    const std::vector<Spec> specs = make_family_specs(/*seed=*/7, 20);
    const std::vector<Answer> expected = plain_answers(machine, specs);
    testing::KnowingDrafter drafter(known_tokens(specs, expected));
    const auto core = machine.make_core(machine.core_options(drafter));
    expect_equal(machine.answer(*core, specs), expected);
    EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 30U);
    EXPECT_GT(machine.runner().shadow()->num_checks(), 20U);
    EXPECT_EQ(machine.runner().shadow()->num_differences(), 0U);
  }
}

// Each number of accepted tokens leaves the states in another slot of the request, and a step with
// fewer drafts is padded to graphs of a smaller width.
TEST(RecurrentDraftSteps, go_on_from_the_last_accepted_token_whatever_was_accepted_before) {
  for (const CudagraphMode mode : {CudagraphMode::NONE, CudagraphMode::FULL_AND_PIECEWISE}) {
    Machine machine({.mode = mode,
                     .num_blocks = 60,
                     .num_speculative_tokens = kNumFamilyDrafts,
                     .config = config_of(kFamilies[4]),
                     .num_state_snapshots = kDraftedSnapshots,
                     .dtype = DType::f32});
    std::vector<Spec> specs;
    for (int32_t i = 0; i < 3; ++i) {
      specs.push_back({.prompt = {100 + i, 7, 300 + 5 * i, 9},
                       .params = {.temperature = 0, .max_tokens = 120, .ignore_eos = true}});
    }
    const std::vector<Answer> expected = plain_answers(machine, specs);
    PatternDrafter drafter(known_tokens(specs, expected));
    engine::EngineCoreOptions options = machine.core_options(drafter);
    options.enable_prefix_caching = false;
    const auto core = machine.make_core(options);
    std::vector<scheduler::RequestId> ids;
    for (const Spec& spec : specs) ids.push_back(core->add_request(spec.prompt, spec.params));
    std::vector<Tokens> tokens(specs.size());
    for (uint32_t step = 0; core->has_unfinished_requests(); ++step) {
      drafter.num_drafts = step / 7 % (kNumFamilyDrafts + 1);
      drafter.num_right = step * step % (kNumFamilyDrafts + 1);
      for (const auto& update : core->step()) {
        if (!update.new_token_id) continue;
        const auto of = std::ranges::find(ids, update.request->id());
        tokens[static_cast<size_t>(of - ids.begin())].push_back(*update.new_token_id);
      }
      if (mode == CudagraphMode::NONE || core->last_step().scheduled->any_prefill) continue;
      EXPECT_EQ(core->last_step().decision.reason, DispatchReason::full_uniform);
    }
    for (size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(tokens[i], expected[i].token_ids);
    const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
    EXPECT_GT(stats.num_accepted_tokens, 20U);
    EXPECT_GT(stats.num_draft_tokens, stats.num_accepted_tokens + 10);
  }
}

TEST(RecurrentDraftSteps, change_nothing_with_fewer_drafts_for_more_requests) {
  Machine machine({.num_speculative_tokens = kNumFamilyDrafts,
                   .config = config_of(kFamilies[4]),
                   .num_state_snapshots = kDraftedSnapshots});
  const std::vector<Spec> specs = make_family_specs(/*seed=*/8, 60);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  testing::KnowingDrafter drafter(known_tokens(specs, expected));
  engine::EngineCoreOptions options = machine.core_options(drafter);
  options.scheduler.drafts_by_batch_size = {0, 4, 4, 3, 2, 1, 0};
  const auto core = machine.make_core(options);
  expect_equal(machine.answer(*core, specs), expected);
  EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 60U);
}

// A step waits for the constraints of all its drafts, because a state may take each token only
// once.
TEST(RecurrentDraftSteps, take_no_token_twice_when_a_constraint_is_slow) {
  Machine machine({.num_speculative_tokens = kNumFamilyDrafts,
                   .config = config_of(kFamilies[4]),
                   .num_state_snapshots = kDraftedSnapshots});
  std::vector<Spec> specs = make_family_specs(/*seed=*/9, 30);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i % 3 != 0) specs[i].constraint_length = 12;
  }
  const std::vector<Answer> expected = plain_answers(machine, specs);
  testing::KnowingDrafter drafter(known_tokens(specs, expected));
  engine::EngineCoreOptions options = machine.core_options(drafter);
  options.scheduler.constraint_time_per_step = std::chrono::nanoseconds(0);
  for (Spec& spec : specs) spec.constraint_time = std::chrono::milliseconds(1);
  const auto core = machine.make_core(options);
  expect_equal(machine.answer(*core, specs), expected);
  EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 20U);
}

// A tiny model with random weights soon repeats itself, and so do these prompts.
TEST(RecurrentDraftSteps, of_n_grams_are_right_where_texts_repeat) {
  uint64_t num_rejected = 0;
  for (const DraftedFamily& family : kFamilies) {
    SCOPED_TRACE(family.name);
    Machine machine({.num_blocks = 60,
                     .num_speculative_tokens = kNumFamilyDrafts,
                     .config = config_of(family),
                     .num_state_snapshots = kDraftedSnapshots,
                     .dtype = DType::f32});
    std::vector<Spec> specs;
    for (int32_t i = 0; i < 8; ++i) {
      Spec spec{.params = {.temperature = 0, .max_tokens = 90, .ignore_eos = true}};
      for (int32_t j = 0; j < 40; ++j) spec.prompt.push_back(100 * i + j % (5 + i));
      specs.push_back(std::move(spec));
    }
    const std::vector<Answer> expected = plain_answers(machine, specs);
    speculative::NgramDrafter drafter({.prompt_lookup_min = 2, .prompt_lookup_max = 5});
    const auto core = machine.make_core(machine.core_options(drafter));
    expect_equal(machine.answer(*core, specs), expected);
    const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
    EXPECT_GT(stats.num_accepted_tokens, 0U);
    num_rejected += stats.num_draft_tokens - stats.num_accepted_tokens;
    fmt::print("{}: {} of {} drafts accepted in {} steps\n",
               family.name,
               stats.num_accepted_tokens,
               stats.num_draft_tokens,
               core->counters().num_steps);
  }
  EXPECT_GT(num_rejected, 50U);
}

// The answer with the snapshot was made with drafts, and the next turn begins after it.
TEST(RecurrentDraftSteps, keep_states_where_blocks_end_among_accepted_drafts) {
  Machine machine({.num_blocks = 60,
                   .num_speculative_tokens = kNumFamilyDrafts,
                   .config = config_of(kFamilies[4]),
                   .num_state_snapshots = kDraftedSnapshots});
  Spec first{.prompt = {3, 1, 4, 1, 5},
             .params = {.temperature = 0, .max_tokens = 60, .ignore_eos = true}};
  const std::vector<Answer> plain = plain_answers(machine, {first});
  Spec second = first;
  second.prompt.insert(second.prompt.end(), plain[0].token_ids.begin(), plain[0].token_ids.end());
  second.prompt.push_back(77);
  const std::vector<Answer> expected = plain_answers(machine, {first, second});
  PatternDrafter drafter(known_tokens({first, second}, expected));
  drafter.num_drafts = kNumFamilyDrafts;
  const auto core = machine.make_core(machine.core_options(drafter));
  EXPECT_EQ(machine.answer(*core, {first}), std::vector<Answer>{expected[0]});
  const uint64_t hits = core->scheduler().prefix_cache_stats().hits;
  EXPECT_EQ(machine.answer(*core, {second}), std::vector<Answer>{expected[1]});
  EXPECT_EQ(core->scheduler().prefix_cache_stats().hits - hits,
            static_cast<uint64_t>((second.prompt.size() - 2) / testing::TinyEngine::kBlockSize *
                                  testing::TinyEngine::kBlockSize))
      << "the second turn begins at the last block end of the first one";
  EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 60U);
}

}  // namespace
}  // namespace reprise
