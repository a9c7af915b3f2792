#include <gtest/gtest.h>

#include "tests/integration/step_outcome.h"

// Invariant 2: replay equals eager bit for bit at the same shape, in every mode. Cells: five modes
// x four levels x four mixes x token counts around every edge, different prompts in every row.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::kMixes;
using testing::Mix;
using testing::Outcome;
using testing::TestBatch;
using testing::TinyEngine;

// One below, at and above each capture size of the tiny engine (1, 2, 4, 8, 16, 24, 32), the
// largest and beyond, and the token budget.
constexpr std::array kTokenCounts = {
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64};

bool fits(const TinyEngine&, Mix mix, int32_t num_tokens) {
  return mix != Mix::uniform_decode || num_tokens <= 16;
}

class ReplayEqualsEager
    : public ::testing::TestWithParam<std::tuple<CudagraphMode, CompilationMode>> {
 protected:
  static CudagraphMode mode() { return std::get<0>(GetParam()); }
  static CompilationMode level() { return std::get<1>(GetParam()); }
};

TEST_P(ReplayEqualsEager, for_every_mix_and_size_with_the_same_bits_of_logits_and_cache) {
  TinyEngine engine({.mode = mode(), .level = level()});
  const cudagraph::CaptureReport report = engine.runner().capture({});
  for (const auto& record : report.records) EXPECT_EQ(record.failure, "");
  engine.randomize_kv(11);
  const std::vector<std::byte> kv_before = engine.save_kv();
  int replayed = 0;
  uint32_t seed = 100;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : kTokenCounts) {
      if (!fits(engine, mix, num_tokens)) continue;
      const TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      const std::string what = describe(mix, num_tokens, decision);
      if (decision.mode != CudagraphRuntimeMode::NONE) ++replayed;
      const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
      const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(eager, replay, what);
      const cudagraph::Decision unpadded{.descriptor = {.num_tokens = num_tokens}};
      const Outcome bare = run(engine, batch, unpadded, CudagraphRuntimeMode::NONE, kv_before);
      expect_same_bits(bare, replay, what + " against the unpadded batch");
      if (HasFailure()) return;
    }
  }
  if (mode() == CudagraphMode::NONE) {
    EXPECT_EQ(replayed, 0);
  } else {
    EXPECT_GE(replayed, 10) << "the mode must really have replayed graphs";
  }
}

TEST_P(ReplayEqualsEager, when_graphs_of_one_pool_replay_in_any_order) {
  TinyEngine engine({.mode = mode(), .level = level()});
  (void)engine.runner().capture({});
  engine.randomize_kv(12);
  const std::vector<std::byte> kv_before = engine.save_kv();
  struct Case {
    TestBatch batch;
    cudagraph::Decision decision;
    Outcome expected;
  };
  std::vector<Case> cases;
  uint32_t seed = 500;
  for (Mix mix : kMixes) {
    for (int32_t num_tokens : {1, 3, 8, 13, 16, 30}) {
      if (!fits(engine, mix, num_tokens)) continue;
      TestBatch batch(mix, num_tokens, 16, seed++);
      const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
      Outcome expected = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
      cases.push_back({std::move(batch), decision, std::move(expected)});
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const Case& c = cases[random() % cases.size()];
    const Outcome replay = run(engine, c.batch, c.decision, c.decision.mode, kv_before);
    expect_same_bits(c.expected, replay, fmt::format("replay {}", i));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(modes_and_levels,
                         ReplayEqualsEager,
                         ::testing::Combine(::testing::ValuesIn(testing::kModes),
                                            ::testing::ValuesIn(testing::kLevels)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              to_string(std::get<0>(param_info.param)),
                                              to_string(std::get<1>(param_info.param)));
                         });

TEST(ReplayEqualsEager, with_copied_inputs) {
  TinyEngine engine({.mode = CudagraphMode::PIECEWISE, .copy_inputs = true});
  (void)engine.runner().capture({});
  engine.randomize_kv(13);
  const std::vector<std::byte> kv_before = engine.save_kv();
  const TestBatch batch(Mix::mixed, 13, 16, 9);
  const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(batch.facts());
  ASSERT_EQ(decision.mode, CudagraphRuntimeMode::PIECEWISE);
  const Outcome replay = run(engine, batch, decision, decision.mode, kv_before);
  const Outcome eager = run(engine, batch, decision, CudagraphRuntimeMode::NONE, kv_before);
  expect_same_bits(eager, replay, "copied inputs");
}

TEST(ReplayEqualsEager, for_lengths_far_from_those_at_capture) {
  // M5, M6: values that depend on lengths must be read when the graph runs, and not when it is
  // captured.
  TinyEngine engine({.mode = CudagraphMode::FULL});
  (void)engine.runner().capture({});
  engine.randomize_kv(14);
  const std::vector<std::byte> kv_before = engine.save_kv();
  for (int32_t context : {0, 1, 15, 16, 17, 100, 254}) {
    std::vector<int32_t> tokens = {42};
    std::vector<kv_cache::BlockId> blocks;
    for (int32_t b = 0; b * TinyEngine::kBlockSize <= context; ++b)
      blocks.push_back(kv_cache::BlockId{b + 1});
    const scheduler::StepEntry row{
        .token_ids = tokens, .num_computed_tokens = context, .block_ids = blocks, .samples = true};
    const cudagraph::Decision decision =
        engine.runner().dispatcher().dispatch({.num_tokens = 1, .num_reqs = 1, .uniform = true});
    ASSERT_EQ(decision.mode, CudagraphRuntimeMode::FULL);
    engine.restore_kv(kv_before);
    const std::vector<float> replay =
        engine.logits(engine.runner().run({&row, 1}, decision, CudagraphRuntimeMode::FULL));
    engine.restore_kv(kv_before);
    const std::vector<float> eager =
        engine.logits(engine.runner().run({&row, 1}, decision, CudagraphRuntimeMode::NONE));
    EXPECT_EQ(std::memcmp(replay.data(), eager.data(), eager.size() * sizeof(float)), 0)
        << "context " << context;
  }
}

}  // namespace
}  // namespace reprise
