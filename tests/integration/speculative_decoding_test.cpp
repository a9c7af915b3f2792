#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/speculative/ngram_drafter.h"
#include "reprise/speculative/suffix_drafter.h"
#include "tests/integration/knowing_drafter.h"
#include "tests/integration/random_load.h"

// Steps verify draft tokens. The expected results are those of the same load without drafts: every
// answer must be equal, with its text, log-probabilities and finish reason, and with any
// parameters.
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

#ifdef __SANITIZE_THREAD__
constexpr int kFewerDrafts = 6;
#else
constexpr int kFewerDrafts = 1;
#endif

testing::KnowingDrafter make_drafter(const std::vector<Spec>& specs,
                                     const std::vector<Answer>& answers) {
  std::vector<Tokens> known;
  for (size_t i = 0; i < specs.size(); ++i) {
    known.push_back(specs[i].prompt);
    const Tokens& answer = answers[i].token_ids;
    known.back().insert(known.back().end(), answer.begin(), answer.end());
  }
  return testing::KnowingDrafter(std::move(known));
}

/// Random requests without aborts. An abort comes after a step, so with steps of different lengths
/// the aborted answers would differ.
std::vector<Spec> make_specs(const Machine& machine, uint32_t seed, int count) {
  Load load(seed, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < count / kFewerDrafts; ++i) {
    specs.push_back(load.next(i));
    specs.back().abort_after = 0;
  }
  return specs;
}

/// Compares answers up to the last bits of logits: bfloat16 values between 8 and 16 are 0.06 apart.
void expect_close(const std::vector<Answer>& answers, const std::vector<Answer>& expected) {
  ASSERT_EQ(answers.size(), expected.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}", i));
    ASSERT_EQ(answers[i].token_ids, expected[i].token_ids);
    EXPECT_EQ(answers[i].text, expected[i].text);
    EXPECT_EQ(answers[i].finish_reason, expected[i].finish_reason);
    ASSERT_EQ(answers[i].logprobs.size(), expected[i].logprobs.size());
    for (size_t j = 0; j < answers[i].logprobs.size(); ++j) {
      EXPECT_NEAR(
          answers[i].logprobs[j].token.logprob, expected[i].logprobs[j].token.logprob, 0.06);
    }
  }
}

class SpeculativeDecoding : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(SpeculativeDecoding, changes_nothing_that_any_request_is_told) {
  Machine machine({.mode = GetParam(), .num_speculative_tokens = 4});
  const std::vector<Spec> specs = make_specs(machine, /*seed=*/5, 240);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  testing::KnowingDrafter drafter = make_drafter(specs, expected);
  const auto core = machine.make_core(machine.core_options(drafter));
  expect_equal(machine.answer(*core, specs), expected);
  // Checks that the load reaches what this test is written for.
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  EXPECT_GT(stats.num_accepted_tokens, 500U / kFewerDrafts);
  EXPECT_GT(stats.num_draft_tokens, stats.num_accepted_tokens + 100U / kFewerDrafts);
  EXPECT_GT(core->scheduler().num_preemptions(), 0);
  EXPECT_GT(core->scheduler().prefix_cache_stats().hits, 0U);
  EXPECT_EQ(core->counters().dropped_tokens, 0U);
  std::map<std::string, int> reasons;
  for (const Answer& answer : expected) ++reasons[answer.finish_reason];
  for (const char* reason : {"stop", "length"}) EXPECT_GT(reasons[reason], 0) << reason;
  EXPECT_EQ(reasons["error"], 0);
  fmt::print("{} tokens in {} steps; {} of {} draft tokens accepted\n",
             core->counters().generation_tokens,
             core->counters().num_steps,
             stats.num_accepted_tokens,
             stats.num_draft_tokens);
}

TEST_P(SpeculativeDecoding, changes_nothing_when_answers_wait_for_the_turn_of_their_constraint) {
  Machine machine({.mode = GetParam(), .num_speculative_tokens = 3});
  std::vector<Spec> specs = make_specs(machine, /*seed=*/6, 120);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i % 3 != 0 && specs[i].constraint_length == 0) specs[i].constraint_length = 9;
  }
  const std::vector<Answer> expected = plain_answers(machine, specs);
  for (const auto time : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(100'000)}) {
    testing::KnowingDrafter drafter = make_drafter(specs, expected);
    engine::EngineCoreOptions options = machine.core_options(drafter);
    options.scheduler.constraint_time_per_step = time;
    // Longer than any step takes, so that answers wait on every machine.
    for (Spec& spec : specs) spec.constraint_time = std::chrono::milliseconds(time.count() == 0);
    const auto core = machine.make_core(options);
    expect_equal(machine.answer(*core, specs), expected);
    EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 50U / kFewerDrafts);
    if (time.count() == 0) {
      EXPECT_GT(core->counters().postponed_tokens, 100U / kFewerDrafts);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         SpeculativeDecoding,
                         ::testing::Values(CudagraphMode::NONE,
                                           CudagraphMode::PIECEWISE,
                                           CudagraphMode::FULL,
                                           CudagraphMode::FULL_DECODE_ONLY,
                                           CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

/// Counts the steps of a load by their kind.
struct StepCounts {
  int uniform = 0;
  int uniform_without_drafts = 0;
  int ragged = 0;
  int with_prompts = 0;
  int not_full = 0;  // of the uniform steps
  std::map<DispatchReason, int> ragged_reasons;

  void add(const runner::ModelStep& step) {
    if (step.facts.uniform) {
      ++(step.facts.query_len == 1 ? uniform_without_drafts : uniform);
      not_full += static_cast<int>(step.decision.reason != DispatchReason::full_uniform);
    } else if (step.facts.ragged_drafts) {
      ++ragged;
      ++ragged_reasons[step.decision.reason];
    } else {
      ++with_prompts;
    }
  }
};

TEST(SpeculativeSteps, replay_full_graphs_when_they_are_uniform_and_name_the_reason_otherwise) {
  for (const CudagraphMode mode :
       {CudagraphMode::FULL_AND_PIECEWISE, CudagraphMode::FULL_DECODE_ONLY}) {
    Machine machine({.mode = mode, .num_blocks = 60, .num_speculative_tokens = 5});
    std::vector<Spec> specs = make_specs(machine, /*seed=*/9, 60);
    for (Spec& spec : specs) {  // many decode steps
      spec.constraint_length = 0;
      spec.params = {.seed = 1, .max_tokens = 60, .ignore_eos = true};
    }
    const std::vector<Answer> expected = plain_answers(machine, specs);
    testing::KnowingDrafter drafter = make_drafter(specs, expected);
    const auto core = machine.make_core(machine.core_options(drafter));
    StepCounts counts;
    size_t next = 0;
    while (next < specs.size() || core->has_unfinished_requests()) {
      for (; next < specs.size() && core->scheduler().num_waiting() < 2; ++next) {
        (void)core->add_request(specs[next].prompt, specs[next].params);
      }
      (void)core->step();
      counts.add(core->last_step());
    }
    EXPECT_EQ(counts.not_full, 0) << "a uniform step without its FULL graph";
    EXPECT_GT(counts.uniform, 20 / kFewerDrafts);
    // The shorter load under ThreadSanitizer may have none.
    EXPECT_GE(counts.ragged, kFewerDrafts == 1 ? 1 : 0);
    EXPECT_EQ(core->ledger().steps(DispatchReason::full_uniform),
              static_cast<uint64_t>(counts.uniform + counts.uniform_without_drafts));
    const DispatchReason wanted = mode == CudagraphMode::FULL_DECODE_ONLY
                                      ? DispatchReason::ragged_drafts
                                      : DispatchReason::piecewise_ragged_drafts;
    std::map<DispatchReason, int> wanted_reasons;
    if (counts.ragged > 0) wanted_reasons[wanted] = counts.ragged;
    EXPECT_EQ(counts.ragged_reasons, wanted_reasons);
    fmt::print("{} uniform steps, {} without drafts, {} ragged, {} with prompts\n",
               counts.uniform,
               counts.uniform_without_drafts,
               counts.ragged,
               counts.with_prompts);
  }
}

TEST(SpeculativeSteps, of_every_width_give_the_tokens_of_plain_decoding) {
  for (int32_t num_drafts = 1; num_drafts <= 16; ++num_drafts) {  // query lengths 2 to 17
    Machine machine({.num_speculative_tokens = num_drafts});
    const std::vector<Spec> specs = make_specs(machine, static_cast<uint32_t>(num_drafts), 24);
    const std::vector<Answer> expected = plain_answers(machine, specs);
    testing::KnowingDrafter drafter = make_drafter(specs, expected);
    const auto core = machine.make_core(machine.core_options(drafter));
    expect_equal(machine.answer(*core, specs), expected);
    EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 0U) << num_drafts;
    EXPECT_EQ(core->ledger().steps(DispatchReason::piecewise_no_decode_size), 0U) << "a size gap";
  }
}

/// Requests with long answers and prompts of these lengths, and a drafter that knows the answers.
struct RightDrafts {
  RightDrafts(Machine& machine, std::span<const int> prompt_lengths) {
    for (size_t i = 0; i < prompt_lengths.size(); ++i) {
      Tokens prompt;
      for (int j = 0; j < prompt_lengths[i]; ++j) {
        prompt.push_back(100 + static_cast<int32_t>(i) * 50 + j);
      }
      specs.push_back({.prompt = std::move(prompt),
                       .params = {.temperature = 0, .max_tokens = 100, .ignore_eos = true}});
    }
    std::vector<Tokens> known;
    const std::vector<Answer> answers = plain_answers(machine, specs);
    for (size_t i = 0; i < specs.size(); ++i) {
      known.push_back(specs[i].prompt);
      known.back().insert(
          known.back().end(), answers[i].token_ids.begin(), answers[i].token_ids.end());
    }
    drafter = std::make_unique<PatternDrafter>(std::move(known));
  }

  std::vector<Spec> specs;
  std::unique_ptr<PatternDrafter> drafter;
};

// Several query lengths: each step uses the narrowest graphs that hold its drafts. V2D-01, V2D-05.
TEST(SpeculativeSteps, take_the_narrowest_graphs_that_hold_their_drafts) {
  Machine machine({.num_blocks = 60, .num_speculative_tokens = 8});
  const std::vector<int> lengths(5, 4);
  const RightDrafts load(machine, lengths);
  const auto core = machine.make_core(machine.core_options(*load.drafter));
  for (const Spec& spec : load.specs) (void)core->add_request(spec.prompt, spec.params);
  (void)core->step();  // the prompts
  const std::vector<int> widths = {1, 3, 3, 5, 5, 9, 9, 9, 9};
  for (size_t num_drafts = 0; num_drafts < widths.size(); ++num_drafts) {
    load.drafter->num_drafts = num_drafts;
    (void)core->step();
    const runner::ModelStep& step = core->last_step();
    const int width = widths[num_drafts];
    EXPECT_TRUE(step.facts.uniform) << num_drafts;
    EXPECT_EQ(step.facts.query_len, width) << num_drafts;
    EXPECT_EQ(step.decision.reason, DispatchReason::full_uniform) << num_drafts;
    EXPECT_EQ(step.decision.descriptor.num_tokens % width, 0) << num_drafts;
    EXPECT_EQ(step.scheduled->num_padding_tokens, 5 * (width - 1 - static_cast<int>(num_drafts)));
  }
}

// V2D-03: prompt chunks with as many tokens as the decodes of the step look like decodes.
TEST(SpeculativeSteps, with_prompt_chunks_of_the_decode_query_length_are_not_uniform) {
  Machine machine({.num_blocks = 60, .num_speculative_tokens = 7});
  const std::vector<int> lengths = {4, 4, 4, 4, 33, 33};
  const RightDrafts load(machine, lengths);
  load.drafter->num_drafts = 7;
  engine::EngineCoreOptions options = machine.core_options(*load.drafter);
  options.scheduler.long_prefill_token_threshold = 8;
  const auto core = machine.make_core(options);
  for (size_t i = 0; i < 4; ++i)
    (void)core->add_request(load.specs[i].prompt, load.specs[i].params);
  (void)core->step();
  (void)core->step();
  EXPECT_EQ(core->last_step().decision.mode, cudagraph::CudagraphRuntimeMode::FULL);
  EXPECT_EQ(core->last_step().facts.query_len, 8);
  for (size_t i = 4; i < 6; ++i)
    (void)core->add_request(load.specs[i].prompt, load.specs[i].params);
  for (int chunk = 0; chunk < 4; ++chunk) {
    (void)core->step();
    const runner::ModelStep& step = core->last_step();
    ASSERT_EQ(step.scheduled->num_reqs(), 6);
    for (const scheduler::StepEntry& entry : step.scheduled->scheduled) {
      ASSERT_EQ(entry.query_len(), 8) << "a step of 6 x 8 tokens";
    }
    EXPECT_FALSE(step.facts.uniform);
    EXPECT_EQ(step.decision.mode, cudagraph::CudagraphRuntimeMode::PIECEWISE);
    EXPECT_EQ(step.decision.reason, DispatchReason::piecewise);
  }
}

TEST(SpeculativeSteps, give_the_tokens_of_plain_decoding_with_every_attention_backend_and_level) {
  for (const attention::BackendInfo& backend : attention::attention_backends()) {
    for (const auto level :
         {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
      Machine machine({.num_speculative_tokens = 3, .level = level, .attention = &backend});
      const std::vector<Spec> specs = make_specs(machine, /*seed=*/4, 36);
      const std::vector<Answer> expected = plain_answers(machine, specs);
      testing::KnowingDrafter drafter = make_drafter(specs, expected);
      const auto core = machine.make_core(machine.core_options(drafter));
      SCOPED_TRACE(fmt::format("{} {}, {}", backend.name, backend.version, to_string(level)));
      // An attention plan cuts the context of a single token into parts, but not that of drafts.
      if (backend.support == cudagraph::AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE) {
        expect_close(machine.answer(*core, specs), expected);
      } else {
        expect_equal(machine.answer(*core, specs), expected);
      }
      EXPECT_GT(core->scheduler().speculation_stats().num_accepted_tokens, 50U / kFewerDrafts);
    }
  }
}

/// A text that repeats itself often.
Tokens repeating_prompt(int32_t first, int period, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + (i % period) * 3);
  return tokens;
}

TEST(SuffixSpeculation, changes_nothing_and_learns_from_earlier_answers) {
  Machine machine({.num_speculative_tokens = 6});
  std::vector<Spec> specs = make_specs(machine, /*seed=*/15, 90);
  for (size_t i = 0; i < specs.size(); i += 2) {
    specs[i].constraint_length = 0;
    specs[i].params.temperature = 0;
  }
  const std::vector<Answer> expected = plain_answers(machine, specs);
  speculative::SuffixDrafter drafter({.min_token_prob = 0});
  uint64_t accepted_first = 0;
  for (const bool is_first : {true, false}) {
    const auto core = machine.make_core(machine.core_options(drafter));
    expect_equal(machine.answer(*core, specs), expected);
    const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
    if (is_first) accepted_first = stats.num_accepted_tokens;
    // In the second round, all answers are known.
    if (!is_first) {
      EXPECT_GT(stats.num_accepted_tokens, 2 * accepted_first + 50U / kFewerDrafts);
    }
    EXPECT_EQ(drafter.num_requests(), 0U) << "a request that ended keeps its memory";
    EXPECT_EQ(drafter.num_cached_requests() > 0, true);
    fmt::print("{} of {} draft tokens accepted in {} steps\n",
               stats.num_accepted_tokens,
               stats.num_draft_tokens,
               core->counters().num_steps);
  }
}

TEST(NgramSpeculation, needs_fewer_steps_for_the_same_tokens_where_text_repeats) {
  Machine machine({.num_blocks = 80, .num_speculative_tokens = 4});
  std::vector<Spec> specs;
  for (int32_t i = 0; i < 6; ++i) {
    specs.push_back({.prompt = repeating_prompt(100 + 40 * i, 7, 40),
                     .params = {.temperature = 0, .max_tokens = 60, .ignore_eos = true}});
  }
  const auto plain = machine.make_core(machine.core_options());
  const std::vector<Answer> expected = machine.answer(*plain, specs);
  speculative::NgramDrafter drafter({.prompt_lookup_min = 2, .prompt_lookup_max = 5});
  const auto core = machine.make_core(machine.core_options(drafter));
  expect_equal(machine.answer(*core, specs), expected);
  EXPECT_EQ(core->counters().generation_tokens, plain->counters().generation_tokens);
  EXPECT_LT(core->counters().num_steps, plain->counters().num_steps);
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  EXPECT_GT(stats.num_accepted_tokens, 0U);
  fmt::print("{} steps instead of {}; {} of {} draft tokens accepted\n",
             core->counters().num_steps,
             plain->counters().num_steps,
             stats.num_accepted_tokens,
             stats.num_draft_tokens);
}

}  // namespace
}  // namespace reprise
