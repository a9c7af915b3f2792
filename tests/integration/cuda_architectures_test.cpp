#include <gtest/gtest.h>

#include <array>

#include "tests/integration/cuda_engine_machine.h"
#include "tests/integration/golden_runner.h"
#include "tests/integration/goldens.h"
#include "tests/integration/step_outcome.h"

// The tiny checkpoint of every architecture on CUDA, against the logits of Hugging Face
// Transformers. The fake driver runs the source of the kernels thread by thread, so the prompts are
// short.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::CudaEngineMachine;
using testing::GoldenCase;
using testing::TinyEngine;
using testing::TinyEngineOptions;

class CudaArchitectures : public ::testing::TestWithParam<const char*> {
 protected:
  // One GPU for all models, because making its context takes longer than running a model.
  static void SetUpTestSuite() { machine = std::make_unique<CudaEngineMachine>(); }
  static void TearDownTestSuite() { machine.reset(); }

  static TinyEngineOptions options(CompilationMode level) {
    TinyEngineOptions options{.mode = CudagraphMode::FULL_AND_PIECEWISE,
                              .level = level,
                              .max_num_tokens = 8,
                              .max_num_reqs = 2,
                              .num_blocks = 8,
                              .dtype = DType::f32,
                              .verify_graphs = cudagraph::VerifyGraphs::strict,
                              .model = testing::golden_folder(GetParam())};
    options.compilation.cudagraph_capture_sizes = std::vector<int32_t>{1, 8};
    return options;
  }

  /// A request in state slot 2.
  static scheduler::StepEntry row_of(std::span<const int32_t> tokens, size_t computed) {
    static constexpr std::array kBlocks = {kv_cache::BlockId{3}, kv_cache::BlockId{1}};
    return {.token_ids = tokens,
            .num_computed_tokens = static_cast<int32_t>(computed),
            .block_ids = kBlocks,
            .state_slot = kv_cache::StateSlot{2},
            .samples = true};
  }

  /// Runs one step, replayed or eager.
  static std::vector<float> step(TinyEngine& engine,
                                 std::span<const int32_t> tokens,
                                 size_t computed,
                                 bool is_replayed) {
    const scheduler::StepEntry row = row_of(tokens, computed);
    const cudagraph::Decision decision =
        engine.runner().dispatcher().dispatch({.num_tokens = static_cast<int32_t>(tokens.size()),
                                               .num_reqs = 1,
                                               .uniform = tokens.size() == 1});
    EXPECT_NE(decision.mode, CudagraphRuntimeMode::NONE);
    return engine.logits(engine.runner().run(
        {&row, 1}, decision, is_replayed ? decision.mode : CudagraphRuntimeMode::NONE));
  }

  /// The logits of each token of the prompt in decode, and of the prompt in one step, next to those
  /// of Transformers.
  std::vector<float> run(TinyEngine& engine, const GoldenCase& golden, bool is_replayed) {
    std::vector<float> all;
    const auto add = [&](const std::vector<float>& logits, size_t position) {
      worst_ = std::max(
          worst_, testing::largest_abs_error(logits, golden.row(golden.logits_f32, position)));
      all.insert(all.end(), logits.begin(), logits.end());
    };
    for (size_t i = 0; i < golden.prompt.size(); ++i) {
      add(step(engine, std::span(golden.prompt).subspan(i, 1), i, is_replayed), i);
    }
    add(step(engine, golden.prompt, 0, is_replayed), golden.prompt.size() - 1);
    return all;
  }

  /// One step as a server runs it: the dispatcher decides, and replays are checked.
  static void serve(TinyEngine& engine, std::span<const int32_t> tokens, size_t computed) {
    const scheduler::StepEntry row = row_of(tokens, computed);
    (void)engine.runner().execute({&row, 1},
                                  {.num_tokens = static_cast<int32_t>(tokens.size()),
                                   .num_reqs = 1,
                                   .uniform = tokens.size() == 1});
  }

  static std::unique_ptr<CudaEngineMachine> machine;
  double worst_ = 0;  // the largest error of a logit
};
std::unique_ptr<CudaEngineMachine> CudaArchitectures::machine;

TEST_P(CudaArchitectures, logits_are_within_1e_4_of_transformers_and_replay_equals_eager) {
  const std::vector<GoldenCase> cases = testing::load_goldens(GetParam());
  const auto golden =
      std::ranges::find_if(cases, [](const GoldenCase& one) { return one.prompt.size() == 7; });
  ASSERT_NE(golden, cases.end());
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    SCOPED_TRACE(config::to_string(level));
    TinyEngineOptions options = machine->options(this->options(level));
    // NVRTC takes seconds for each model; cuda_generated_code_test has cases with generated code.
    options.generator.reset();
    TinyEngine engine(options);
    const cudagraph::CaptureReport report = engine.runner().capture({});
    for (const auto& record : report.records) {
      EXPECT_EQ(record.failure, "");
      EXPECT_EQ(record.verdict, cudagraph::CaptureVerdict::proved);
    }
    EXPECT_EQ(report.violation, "");
    EXPECT_EQ(run(engine, *golden, true), run(engine, *golden, false)) << "replay changed bits";
  }
  fmt::print("[measured] {} f32 on CUDA: max abs error {:.2e}\n", GetParam(), worst_);
  EXPECT_LE(worst_, 1e-4);
}

// Takes five times as long as the test above, so it runs when --gtest_also_run_disabled_tests is
// given.
TEST_P(CudaArchitectures, DISABLED_verifier_and_shadow_checks_raise_no_false_alarm_in_any_mode) {
  const std::vector<GoldenCase> cases = testing::load_goldens(GetParam());
  const auto golden =
      std::ranges::find_if(cases, [](const GoldenCase& one) { return one.prompt.size() == 7; });
  ASSERT_NE(golden, cases.end());
  for (const CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
    for (const CudagraphMode mode : testing::kModes) {
      SCOPED_TRACE(::testing::Message()
                   << config::to_string(level) << ", " << cudagraph::to_string(mode));
      TinyEngineOptions asked = options(level);
      asked.mode = mode;
      asked.shadow = {.rate = 1};
      TinyEngineOptions options = machine->options(asked);
      options.generator.reset();
      TinyEngine engine(options);
      const cudagraph::CaptureReport report = engine.runner().capture({});
      EXPECT_EQ(report.num_with(cudagraph::CaptureVerdict::proved), report.records.size());
      EXPECT_EQ(report.violation, "");
      const bool has_mixed = mixed_mode(mode) != CudagraphRuntimeMode::NONE;
      for (size_t i = 0; i < golden->prompt.size(); ++i) {
        serve(engine, std::span(golden->prompt).subspan(i, 1), i);
      }
      serve(engine, golden->prompt, 0);
      const runner::ShadowCheck& shadow = *engine.runner().shadow();
      const size_t num_replays = mode == CudagraphMode::NONE ? 0 : 7 + (has_mixed ? 1 : 0);
      EXPECT_EQ(shadow.num_checks(), num_replays);
      EXPECT_EQ(shadow.num_differences(), 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(models,
                         CudaArchitectures,
                         ::testing::ValuesIn(testing::kArchitectureGoldens),
                         [](const auto& param_info) {
                           return testing::test_name(param_info.param);
                         });

}  // namespace
}  // namespace reprise
