#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/api/graphs/graph_change.h"
#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/cudagraph/dispatch_reason.h"
#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/source_dir.h"

// The rule measured: whatever keys a start keeps, steps must give the same bits.
// measured_ladder_test tests which keys pay, with known costs.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CaptureSizeRule;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::KeyState;
using cudagraph::LadderReport;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Mix;
using testing::Outcome;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;
using Tokens = std::vector<int32_t>;

TinyEngineOptions measured_options(CudagraphMode mode,
                                   CompilationMode level = CompilationMode::NONE) {
  TinyEngineOptions options{.mode = mode, .level = level};
  options.compilation.capture_size_rule = CaptureSizeRule::measured;
  return options;
}

/// A measurement that drops each key with a probability of 2/3.
LadderReport drop_at_random(const cudagraph::CudagraphDispatcher& dispatcher, uint32_t seed) {
  std::mt19937 random(seed);
  LadderReport report;
  for (const cudagraph::KeyStatus& status : dispatcher.key_states()) {
    report.keys.push_back({.key = status.key});
    if (random() % 3 != 0) report.keys.back().dropped_because = "saves nothing";
  }
  return report;
}

size_t num_with(const cudagraph::CudagraphDispatcher& dispatcher, KeyState state) {
  size_t count = 0;
  for (const cudagraph::KeyStatus& status : dispatcher.key_states()) {
    if (status.state == state) ++count;
  }
  return count;
}

class MeasuredSizes : public ::testing::TestWithParam<std::tuple<CudagraphMode, CompilationMode>> {
};

TEST_P(MeasuredSizes, give_the_bits_of_eager_steps_whatever_keys_are_kept) {
  const auto [mode, level] = GetParam();
  for (uint32_t seed = 0; seed < 4; ++seed) {
    TinyEngine engine(measured_options(mode, level));
    const LadderReport dropped = drop_at_random(engine.runner().dispatcher(), seed);
    const cudagraph::CaptureReport report = engine.runner().capture({}, &dropped);
    ASSERT_EQ(report.num_captured(), dropped.num_kept());
    ASSERT_EQ(num_with(engine.runner().dispatcher(), KeyState::captured), dropped.num_kept());
    engine.randomize_kv(11);
    const std::vector<std::byte> kv_before = engine.save_kv();
    for (const Mix mix : {Mix::uniform_decode, Mix::mixed, Mix::prefill}) {
      for (const int32_t num_tokens : {1, 2, 5, 11, 16, 33, 64}) {
        if (mix == Mix::uniform_decode && num_tokens > 16) continue;
        const TestBatch batch(mix, num_tokens, 16, seed * 100 + static_cast<uint32_t>(num_tokens));
        const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
        const std::string what = describe(mix, num_tokens, decision);
        EXPECT_TRUE(keeps_promise(decision.reason)) << what << ": dropped keys are no promise";
        const Outcome step = run(engine, batch, decision, decision.mode, kv_before);
        const cudagraph::Decision bare{.descriptor = {.num_tokens = num_tokens}};
        const Outcome eager = run(engine, batch, bare, CudagraphRuntimeMode::NONE, kv_before);
        expect_same_bits(eager, step, what);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(modes_and_levels,
                         MeasuredSizes,
                         ::testing::Combine(::testing::Values(CudagraphMode::PIECEWISE,
                                                              CudagraphMode::FULL,
                                                              CudagraphMode::FULL_DECODE_ONLY,
                                                              CudagraphMode::FULL_AND_PIECEWISE),
                                            ::testing::Values(CompilationMode::NONE,
                                                              CompilationMode::VLLM_COMPILE)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              to_string(std::get<0>(param_info.param)),
                                              to_string(std::get<1>(param_info.param)));
                         });

TEST(MeasuredSizes, leave_the_memory_of_the_graphs_that_are_kept) {
  TinyEngineOptions options = measured_options(CudagraphMode::FULL_AND_PIECEWISE);
  options.max_num_tokens = 512;
  TinyEngine measures(options);
  const cudagraph::CaptureReport report = measures.runner().capture({});
  ASSERT_TRUE(report.ladder.has_value());
  EXPECT_EQ(report.num_captured(), report.ladder->num_kept());
  EXPECT_EQ(num_with(measures.runner().dispatcher(), KeyState::dropped),
            report.ladder->keys.size() - report.ladder->num_kept());
  TinyEngine knows(options);
  (void)knows.runner().capture({}, &*report.ladder);
  EXPECT_EQ(measures.execution().graph_pool().reserved_bytes(),
            knows.execution().graph_pool().reserved_bytes());
  EXPECT_EQ(measures.runner().graph_bytes(), knows.runner().graph_bytes());
}

TEST(MeasuredSizes, do_not_touch_the_cache_while_they_are_timed) {
  for (const std::string& config :
       {std::string(testing::kTinyQwen3Config), std::string(testing::kTinyBambaConfig)}) {
    TinyEngineOptions options = measured_options(CudagraphMode::FULL_AND_PIECEWISE);
    options.max_num_tokens = 16;
    options.config = config;
    TinyEngine engine(options);
    engine.randomize_kv(5);
    const std::vector<std::byte> before = engine.save_kv();
    const cudagraph::CaptureReport report = engine.runner().capture({});
    EXPECT_GT(report.ladder->num_runs, 0U);
    EXPECT_TRUE(engine.save_kv() == before);
  }
}

std::vector<int32_t> values_of(const Tensor& tensor) {
  const auto* values = tensor.data_as<int32_t>();
  return {values, values + tensor.size(0)};
}

TEST(MeasuredSizes, are_timed_with_the_requests_of_the_batch_and_padding_up_to_the_key) {
  TinyEngine engine({.mode = CudagraphMode::NONE});
  runner::InputBatch& batch = engine.runner().input_batch();
  batch.stage_dummy({.num_tokens = 8, .num_reqs = 4, .num_logits_rows = 4},
                    {.num_tokens = 5, .num_reqs = 3, .num_logits_rows = 3},
                    engine.execution().stream());
  engine.execution().stream().synchronize();
  const attention::AttentionMetadata metadata = batch.attention_metadata();
  EXPECT_THAT(values_of(metadata.query_start_loc), ElementsAre(0, 2, 4, 5, 5));
  EXPECT_THAT(values_of(metadata.seq_lens), ElementsAre(2, 2, 1, 0));
  EXPECT_THAT(values_of(metadata.slot_mapping), Each(-1)) << "no block is written";
  EXPECT_THAT(values_of(batch.num_logits()), ElementsAre(3));
  EXPECT_EQ(batch.shape().num_tokens, 8);
}

api::EngineArgs arguments(const char* mode, int level) {
  api::EngineArgs args;
  args.model = std::filesystem::path(source_dir()) / "models/reprise-tiny";
  args.max_num_seqs = 8;
  args.max_num_batched_tokens = 48;
  args.max_model_len = 192;
  args.num_threads = 2;
  args.compilation_config = {
      {"cudagraph_mode", mode}, {"mode", level}, {"capture_size_rule", "measured"}};
  return args;
}

std::vector<Tokens> answers_of(const api::EngineArgs& args) {
  api::LLM llm(args);
  std::vector<Tokens> prompts(11);
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t k = 0; k <= i * 17 % 90; ++k)
      prompts[i].push_back(static_cast<int32_t>(100 + (i * 31 + k * 7) % 400));
  }
  std::vector<Tokens> answers;
  const sampling::SamplingParams params{.temperature = 0, .max_tokens = 20, .ignore_eos = true};
  for (const api::RequestOutput& output : llm.generate_token_ids(prompts, params)) {
    answers.push_back(output.output.token_ids);
  }
  return answers;
}

TEST(MeasuredSizes, give_the_tokens_of_eager_steps_in_every_mode) {
  for (const int level : {0, 3}) {
    const std::vector<Tokens> expected = answers_of(arguments("NONE", level));
    for (const char* mode : {"PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"}) {
      api::EngineArgs args = arguments(mode, level);
      EXPECT_EQ(answers_of(args), expected) << mode << " at level " << level;
      if (level != 3) continue;
      args.speculative_config = {{"method", "ngram"}, {"num_speculative_tokens", 3}};
      EXPECT_EQ(answers_of(args), expected) << mode << " with drafts";
    }
  }
}

TEST(MeasuredSizes, show_dropped_keys_with_their_reasons_and_refuse_other_sizes) {
  api::EngineArgs args = arguments("FULL_AND_PIECEWISE", 0);
  args.strict_graphs = true;
  api::AsyncEngine engine(args);
  const cudagraph::CaptureReport& capture = engine.startup_report().capture;
  const Json graphs = engine.graphs();
  size_t num_dropped = 0;
  for (const Json& key : graphs["keys"]) {
    EXPECT_TRUE(key["state"] == "captured" || key["state"] == "dropped") << key.dump();
    EXPECT_EQ(key.contains("reason"), key["state"] == "dropped") << key.dump();
    if (key["state"] == "dropped") ++num_dropped;
  }
  EXPECT_EQ(num_dropped, capture.ladder->keys.size() - capture.ladder->num_kept());
  try {
    (void)engine.change_graphs(api::parse_graph_change(Json{{"cudagraph_mode", "PIECEWISE"}}));
    ADD_FAILURE() << "the change was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("capture_size_rule measured"));
  }
  // The other changes need no measurement.
  EXPECT_NO_THROW(
      (void)engine.change_graphs(api::parse_graph_change(Json{{"shadow_check_rate", 0.5}})));
}

}  // namespace
}  // namespace reprise
