#include <gtest/gtest.h>

#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"

// Compares a runner whose graphs change between its steps with one whose graphs stay.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using cudagraph::KeyState;
using cudagraph::KeyStatus;
using cudagraph::PlannedKey;
using cudagraph::VerifyGraphs;
using testing::Mix;
using testing::TestBatch;
using testing::TinyEngine;
using testing::TinyEngineOptions;

runner::GraphSettings settings_of(const cudagraph::DispatcherOptions& plan,
                                  VerifyGraphs level = VerifyGraphs::capture,
                                  double shadow_rate = 0) {
  return {.dispatcher = plan, .verify_graphs = level, .shadow_rate = shadow_rate};
}

size_t capture_all(TinyEngine& engine) {
  size_t count = 0;
  for (; const auto record = engine.runner().capture_next(); ++count) {
    EXPECT_EQ(record->failure, "") << to_string(record->descriptor);
    EXPECT_NE(record->verdict, cudagraph::CaptureVerdict::violated);
  }
  return count;
}

std::vector<float> step(TinyEngine& engine, const TestBatch& batch) {
  return engine.logits(engine.runner().execute(batch.requests(), batch.facts()));
}

class ChangedRunner : public ::testing::TestWithParam<std::tuple<const char*, CompilationMode>> {};

TEST_P(ChangedRunner, gives_the_bits_of_one_that_stays_before_between_and_after_its_captures) {
  const auto [config, level] = GetParam();
  TinyEngineOptions options{
      .mode = CudagraphMode::FULL_AND_PIECEWISE, .level = level, .config = config};
  std::vector<cudagraph::DispatcherOptions> plans;
  for (const CudagraphMode mode : testing::kModes) {
    TinyEngineOptions other = options;
    other.mode = mode;
    other.level = CompilationMode::NONE;
    std::vector<std::string> warnings;
    other.warnings = &warnings;
    plans.push_back(TinyEngine(other).runner().dispatcher().options());
  }
  plans[3].mixed_capture_sizes = {3, 8, 24};
  TinyEngine stays(options);
  TinyEngine changes(options);
  (void)stays.runner().capture({});
  (void)changes.runner().capture({});
  stays.randomize_kv(11);
  changes.randomize_kv(11);
  uint32_t seed = 1;
  const auto compare = [&](const char* when) {
    for (const auto& [mix, num_tokens] : {std::pair{Mix::uniform_decode, 7},
                                          {Mix::mixed, 24},
                                          {Mix::prefill, 13},
                                          {Mix::chunked, 31}}) {
      const TestBatch batch(mix, num_tokens, 16, seed++);
      ASSERT_EQ(step(changes, batch), step(stays, batch)) << when << ' ' << to_string(mix);
      ASSERT_EQ(changes.save_kv(), stays.save_kv()) << when << ' ' << to_string(mix);
    }
  };
  for (size_t i = 0; i < 2 * plans.size(); ++i) {
    SCOPED_TRACE(i);
    const VerifyGraphs verify = i % 3 == 0 ? VerifyGraphs::strict : VerifyGraphs::capture;
    (void)changes.runner().change_graphs(
        settings_of(plans[i * 3 % plans.size()], verify, i % 4 == 1 ? 1 : 0));
    compare("before its captures");
    for (int k = 0; k < 3 && changes.runner().capture_next(); ++k) {
    }
    compare("between its captures");
    (void)capture_all(changes);
    compare("after its captures");
    if (HasFatalFailure()) return;
  }
  EXPECT_TRUE(changes.runner().retired_graphs().empty());
}

INSTANTIATE_TEST_SUITE_P(Models,
                         ChangedRunner,
                         ::testing::Combine(::testing::Values(testing::kTinyQwen3Config,
                                                              testing::kTinyDeepseekConfig,
                                                              testing::kTinyBambaConfig,
                                                              testing::kTinyQwen3NextConfig,
                                                              testing::kTinyMamba2Config),
                                            ::testing::Values(CompilationMode::NONE,
                                                              CompilationMode::VLLM_COMPILE)),
                         [](const auto& test) {
                           const std::string text(std::get<0>(test.param));
                           const size_t begin = text.find("model_type\": \"") + 14;
                           return text.substr(begin, text.find('"', begin) - begin) +
                                  (std::get<1>(test.param) == CompilationMode::NONE ? "_level_0"
                                                                                    : "_level_3");
                         });

TEST(ReleasedKey, is_captured_anew_and_not_replayed_before) {
  TinyEngine engine({.mode = CudagraphMode::FULL_AND_PIECEWISE});
  (void)engine.runner().capture({});
  engine.randomize_kv(3);
  runner::ModelRunner& runner = engine.runner();
  const TestBatch batch(Mix::uniform_decode, 8, 16, 1);
  const std::vector<float> expected = step(engine, batch);
  const cudagraph::Decision decision = runner.last_result().decision;
  ASSERT_EQ(decision.mode, CudagraphRuntimeMode::FULL);
  const PlannedKey key{decision.mode, decision.descriptor};
  const uint64_t captures = runner.full_wrapper().counters().captures;
  ASSERT_TRUE(runner.release_key(key));
  EXPECT_FALSE(runner.full_wrapper().has(key.descriptor));
  EXPECT_EQ(step(engine, batch), expected);
  EXPECT_NE(runner.last_result().decision.descriptor, key.descriptor);
  const std::optional<cudagraph::CaptureRecord> record = runner.capture_next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->descriptor, key.descriptor);
  EXPECT_EQ(record->verdict, cudagraph::CaptureVerdict::proved);
  EXPECT_EQ(runner.full_wrapper().counters().captures, captures + 1);
  EXPECT_EQ(step(engine, batch), expected);
  EXPECT_EQ(runner.last_result().decision, decision);
  EXPECT_FALSE(runner.capture_next().has_value());
  EXPECT_FALSE(runner.release_key({CudagraphRuntimeMode::FULL, {.num_tokens = 12345}}));
}

TEST(QuarantinedKey, has_no_graph_any_more) {
  TinyEngine engine({.mode = CudagraphMode::FULL_AND_PIECEWISE});
  (void)engine.runner().capture({});
  runner::ModelRunner& runner = engine.runner();
  const size_t bytes = runner.graph_bytes();
  const KeyStatus status = runner.dispatcher().key_states().back();
  ASSERT_EQ(status.key.mode, CudagraphRuntimeMode::FULL);
  EXPECT_TRUE(runner.quarantine_key(status.key));
  EXPECT_FALSE(runner.full_wrapper().has(status.key.descriptor));
  EXPECT_LT(runner.graph_bytes(), bytes);
  EXPECT_FALSE(runner.quarantine_key(status.key)) << "it is out already";
  EXPECT_EQ(runner.dispatcher().key_states().back().state, KeyState::quarantined);
}

TEST(ChangedPlan, gives_graphs_and_the_copies_of_shadow_checks_back) {
  TinyEngine engine({.mode = CudagraphMode::FULL_AND_PIECEWISE});
  (void)engine.runner().capture({});
  runner::ModelRunner& runner = engine.runner();
  cudagraph::DispatcherOptions plan = runner.dispatcher().options();
  const size_t num_keys = runner.dispatcher().key_states().size();
  // Checks need the launches of captures, so each key must be captured again.
  EXPECT_EQ(runner.change_graphs(settings_of(plan, VerifyGraphs::capture, 0.5)), num_keys);
  EXPECT_EQ(runner.graph_bytes(), 0U);
  EXPECT_EQ(capture_all(engine), num_keys);
  EXPECT_GT(runner.shadow()->bytes(), 0U);
  EXPECT_EQ(runner.change_graphs(settings_of(plan, VerifyGraphs::capture, 0.1)), 0U);
  plan.mode = CudagraphMode::NONE;
  EXPECT_EQ(runner.change_graphs(settings_of(plan)), num_keys);
  EXPECT_EQ(runner.graph_bytes(), 0U);
  EXPECT_EQ(runner.num_piecewise_graphs(), 0U);
  EXPECT_EQ(runner.shadow()->bytes(), 0U);
}

}  // namespace
}  // namespace reprise
