#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/runner/model_drafter.h"
#include "tests/integration/random_load.h"

// A second model makes the drafts. The expected answers are those of the same load without drafts.
// The expected drafts are those of a draft model that computes every request anew.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using cudagraph::DispatchReason;
using runner::ModelDrafter;
using speculative::DraftRequest;
using speculative::DraftSampleMethod;
using testing::Answer;
using testing::Load;
using testing::Machine;
using testing::Spec;
using testing::TinyEngine;

#ifdef __SANITIZE_THREAD__
constexpr int kLess = 6;
#else
constexpr int kLess = 1;
#endif

std::vector<Spec> make_specs(const Machine& machine, uint32_t seed, int count) {
  Load load(seed, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < count / kLess; ++i) {
    specs.push_back(load.next(i));
    specs.back().abort_after = 0;
  }
  return specs;
}

/// One layer with random weights and the vocabulary of the bundled model: most drafts are wrong.
std::string random_model_config(int32_t vocab_size) {
  return fmt::format(
      R"({{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "vocab_size": {}, "max_position_embeddings": 160,
      "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
      "hidden_act": "silu"}})",
      vocab_size);
}

struct DraftOptions {
  CudagraphMode mode = CudagraphMode::FULL_AND_PIECEWISE;
  bool is_random_model = false;  // else the model itself
  int64_t num_blocks = 24;
  int32_t max_num_tokens = Machine::kMaxNumTokens;
  int32_t max_model_len = 160;
  int32_t num_speculative_tokens = 4;
  kv_cache::PrefixCaching prefix_caching = kv_cache::PrefixCaching::on;
  DraftSampleMethod sample_method = DraftSampleMethod::probabilistic;
};

/// A draft model for a Machine.
class DraftModel {
 public:
  DraftModel(const Machine& machine, const DraftOptions& options)
      : tiny_(tiny_options(machine, options)),
        drafter_((tiny_.runner().capture({}), tiny_.runner()),
                 {.max_num_reqs = Machine::kMaxNumReqs,
                  .max_num_tokens = options.max_num_tokens,
                  .max_model_len = options.max_model_len,
                  .vocab_size = machine.vocab_size(),
                  .num_speculative_tokens = options.num_speculative_tokens,
                  .prefix_caching = options.prefix_caching,
                  .sample_method = options.sample_method}) {}

  [[nodiscard]] ModelDrafter& drafter() noexcept { return drafter_; }
  [[nodiscard]] TinyEngine& engine() noexcept { return tiny_; }

 private:
  static testing::TinyEngineOptions tiny_options(const Machine& machine,
                                                 const DraftOptions& options) {
    testing::TinyEngineOptions tiny{.mode = options.mode,
                                    .max_num_tokens = options.max_num_tokens,
                                    .max_num_reqs = Machine::kMaxNumReqs,
                                    .num_blocks = options.num_blocks,
                                    .num_speculative_tokens = ModelDrafter::kFirstQueryLen - 1};
    if (options.is_random_model) {
      tiny.config = random_model_config(machine.vocab_size());
    } else {
      tiny.model = testing::bundled_model();
    }
    return tiny;
  }

  TinyEngine tiny_;
  ModelDrafter drafter_;
};

class DraftModelModes : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(DraftModelModes, change_nothing_that_any_request_is_told) {
  Machine machine({.mode = GetParam(), .num_speculative_tokens = 4});
  const std::vector<Spec> specs = make_specs(machine, /*seed=*/5, 120);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  for (const bool is_random_model : {false, true}) {
    SCOPED_TRACE(is_random_model ? "a random model" : "the model itself");
    DraftModel draft(machine, {.mode = GetParam(), .is_random_model = is_random_model});
    const auto core = machine.make_core(machine.core_options(draft.drafter()));
    expect_equal(machine.answer(*core, specs), expected);
    const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
    EXPECT_GT(stats.num_draft_tokens, (is_random_model ? 50U : 500U) / kLess);
    EXPECT_GT(core->scheduler().num_preemptions(), 0);
    EXPECT_GT(core->scheduler().prefix_cache_stats().hits, 0U);
    EXPECT_EQ(draft.drafter().num_failed_calls(), 0U);
    EXPECT_EQ(core->counters().dropped_tokens, 0U);
    fmt::print("{} tokens in {} steps; {} of {} draft tokens accepted\n",
               core->counters().generation_tokens,
               core->counters().num_steps,
               stats.num_accepted_tokens,
               stats.num_draft_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         DraftModelModes,
                         ::testing::Values(CudagraphMode::NONE,
                                           CudagraphMode::PIECEWISE,
                                           CudagraphMode::FULL,
                                           CudagraphMode::FULL_DECODE_ONLY,
                                           CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

// If the draft model computes the same logits and uses the same random numbers, every draft is the
// main model's sample: with any parameters, but without a constraint.
TEST(DraftModel, is_always_right_if_it_is_the_main_model) {
  Machine machine({.num_speculative_tokens = 4});
  std::vector<Spec> specs = make_specs(machine, /*seed=*/8, 120);
  for (Spec& spec : specs) spec.constraint_length = 0;
  const std::vector<Answer> expected = plain_answers(machine, specs);
  DraftModel draft(machine, {});
  const auto core = machine.make_core(machine.core_options(draft.drafter()));
  expect_equal(machine.answer(*core, specs), expected);
  const speculative::SpeculationStats& stats = core->scheduler().speculation_stats();
  EXPECT_GT(stats.num_draft_tokens, 500U / kLess);
  EXPECT_EQ(stats.num_accepted_tokens, stats.num_draft_tokens);
}

TEST(DraftModel, replays_full_graphs_in_all_its_uniform_steps) {
  Machine machine({.num_blocks = 60, .num_speculative_tokens = 5});
  std::vector<Spec> specs = make_specs(machine, /*seed=*/9, 40);
  for (Spec& spec : specs) {
    spec.constraint_length = 0;
    spec.params = {.temperature = 0, .max_tokens = 60, .ignore_eos = true};
  }
  const std::vector<Answer> expected = plain_answers(machine, specs);
  for (const CudagraphMode mode :
       {CudagraphMode::FULL_AND_PIECEWISE, CudagraphMode::FULL_DECODE_ONLY}) {
    DraftModel draft(machine, {.mode = mode, .num_blocks = 60, .num_speculative_tokens = 5});
    const auto core = machine.make_core(machine.core_options(draft.drafter()));
    expect_equal(machine.answer(*core, specs), expected);
    const cudagraph::DispatchLedger& ledger = *draft.drafter().ledger();
    const uint64_t num_full = ledger.steps(DispatchReason::full_uniform);
    EXPECT_GT(num_full, 100U / kLess);
    uint64_t num_steps = 0;
    for (const auto& decision : ledger.decisions()) {
      num_steps += decision.count;
      // All other steps compute prompt tokens that the draft model lacks.
      if (decision.reason == DispatchReason::full_uniform) {
        EXPECT_TRUE(decision.descriptor.uniform);
      }
    }
    const uint64_t num_prompts =
        specs.size() + static_cast<uint64_t>(core->scheduler().num_preemptions());
    EXPECT_LE(num_steps - num_full, 4 * num_prompts) << "a uniform step without its FULL graph";
  }
}

// V2D-17 and V2D-18: of four drafts, three come from steps of one token, eager or replayed. The
// step before them also computes the prompt's last tokens.
TEST(DraftModel, makes_one_step_per_further_draft) {
  Machine machine({.num_speculative_tokens = 4});
  for (const CudagraphMode mode : {CudagraphMode::NONE, CudagraphMode::FULL_DECODE_ONLY}) {
    DraftModel draft(machine, {.mode = mode});
    testing::Tokens tokens = {50, 60, 0, 0, 0, 0};
    const sampling::SamplingParams params{.temperature = 0};
    DraftRequest request{.token_ids = std::span(tokens).first(2),
                         .drafts = std::span(tokens).subspan(2),
                         .next = {.params = &params}};
    draft.drafter().propose_all({&request, 1});
    EXPECT_EQ(request.num_drafts, 4);
    uint64_t num_first = 0;
    uint64_t num_further = 0;
    for (const auto& decision : draft.drafter().ledger()->decisions()) {
      if (mode == CudagraphMode::NONE) {
        EXPECT_EQ(decision.mode, cudagraph::CudagraphRuntimeMode::NONE);
        EXPECT_EQ(decision.count, 4U);
        continue;
      }
      EXPECT_EQ(decision.mode, cudagraph::CudagraphRuntimeMode::FULL);
      (decision.descriptor.num_tokens == 1 ? num_further : num_first) += decision.count;
    }
    if (mode == CudagraphMode::NONE) continue;
    EXPECT_EQ(num_first, 1U);
    EXPECT_EQ(num_further, 3U);
  }
}

/// Compares the drafts of a model whose cache follows the requests with the drafts of the same
/// model when it computes each request anew.
class ComparedDrafter final : public speculative::Drafter {
 public:
  ComparedDrafter(ModelDrafter& warm, ModelDrafter& cold) : warm_(&warm), cold_(&cold) {}

  void propose_all(std::span<DraftRequest> requests) noexcept override {
    warm_->propose_all(requests);
    for (DraftRequest& request : requests) compare(request);
  }
  int num_compared = 0;
  int num_late = 0;  // requests whose prompt the draft model had not computed yet

 private:
  void compare(const DraftRequest& request) {
    const auto count = static_cast<size_t>(request.num_drafts);
    if (count == 0) {
      ++num_late;
      return;
    }
    const testing::Tokens drafts(request.drafts.begin(),
                                 request.drafts.begin() + request.num_drafts);
    cold_->forget_all();
    DraftRequest again = request;
    again.drafts = again.drafts.first(count);
    for (int call = 0; call == 0 || (again.num_drafts == 0 && call < 20); ++call) {
      cold_->propose_all({&again, 1});
    }
    const testing::Tokens expected(again.drafts.begin(), again.drafts.begin() + again.num_drafts);
    EXPECT_EQ(drafts, expected) << "after " << request.token_ids.size() << " tokens";
    ++num_compared;
  }

  ModelDrafter* warm_;
  ModelDrafter* cold_;
};

TEST(DraftModel, gives_the_same_drafts_whatever_its_cache_went_through) {
  Machine machine({.num_speculative_tokens = 3});
  std::vector<Spec> specs = make_specs(machine, /*seed=*/12, 100);
  const std::vector<Answer> expected = plain_answers(machine, specs);
  // Steps of 12 tokens cut prompts into chunks, and there are so few blocks that requests lose
  // theirs.
  for (const DraftOptions& options :
       {DraftOptions{},
        DraftOptions{.num_blocks = 12, .max_num_tokens = 12},
        DraftOptions{.max_model_len = 60, .sample_method = DraftSampleMethod::greedy},
        DraftOptions{.is_random_model = true, .max_num_tokens = 12},
        DraftOptions{.prefix_caching = kv_cache::PrefixCaching::off}}) {
    DraftOptions warm_options = options;
    warm_options.num_speculative_tokens = 3;
    DraftOptions cold_options = warm_options;
    cold_options.num_blocks = 24;
    cold_options.prefix_caching = kv_cache::PrefixCaching::off;
    DraftModel warm(machine, warm_options);
    DraftModel cold(machine, cold_options);
    ComparedDrafter drafter(warm.drafter(), cold.drafter());
    const auto core = machine.make_core(machine.core_options(drafter));
    expect_equal(machine.answer(*core, specs), expected);
    EXPECT_GT(drafter.num_compared, 40 / kLess);
    if (options.max_num_tokens == 12) {
      EXPECT_GT(drafter.num_late, 0);
    }
    EXPECT_EQ(warm.drafter().num_failed_calls() + cold.drafter().num_failed_calls(), 0U);
    warm.drafter().forget_all();
    EXPECT_EQ(warm.drafter().kv_cache_manager().num_free_blocks(),
              warm.drafter().kv_cache_manager().num_blocks() - 1);
    fmt::print("{} compared, {} late\n", drafter.num_compared, drafter.num_late);
  }
}

}  // namespace
}  // namespace reprise
