#include <gtest/gtest.h>

#include <array>

#include "tests/integration/golden_runner.h"
#include "tests/integration/goldens.h"
#include "tests/integration/step_outcome.h"
#include "tests/integration/tiny_engine.h"

// A tiny checkpoint of every architecture against Hugging Face Transformers, through the whole
// engine: logits, greedy tokens, chunks of prompts, batches, modes and levels.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using testing::GoldenCase;
using testing::GoldenRunner;
using testing::TinyEngine;

class ArchitectureGoldens : public ::testing::TestWithParam<const char*> {
 protected:
  std::vector<GoldenCase> cases_ = testing::load_goldens(GetParam());
};

TEST_P(ArchitectureGoldens, f32_logits_are_within_1e_4_of_transformers_on_every_isa) {
  for (kernels::Isa isa : kernels::supported_isas(device::detect_cpu_features())) {
    GoldenRunner runner(testing::golden_folder(GetParam()), DType::f32, isa);
    double worst = 0;
    for (const GoldenCase& golden : cases_) {
      const std::vector<std::vector<float>> decoded = runner.decoded_logits(golden.prompt);
      for (size_t position = 0; position < golden.prompt.size(); ++position) {
        worst = std::max(
            worst,
            testing::largest_abs_error(decoded[position], golden.row(golden.logits_f32, position)));
      }
      for (size_t chunk : {golden.prompt.size(), size_t{5}, size_t{16}}) {
        // Each way of cutting the prompt must give the same bits, and decoding it token by token
        // too.
        ASSERT_EQ(runner.last_logits(golden.prompt, chunk), decoded.back())
            << kernels::isa_name(isa) << ", chunks of " << chunk;
      }
    }
    fmt::print(
        "[measured] {} f32 {}: max abs error {:.2e}\n", GetParam(), kernels::isa_name(isa), worst);
    EXPECT_LE(worst, 1e-4) << kernels::isa_name(isa);
  }
}

TEST_P(ArchitectureGoldens, bf16_logits_do_not_depend_on_the_chunks_and_stay_near_f32) {
  const kernels::Isa isa = kernels::best_isa(device::detect_cpu_features());
  GoldenRunner runner(testing::golden_folder(GetParam()), DType::bf16, isa);
  for (const GoldenCase& golden : cases_) {
    const std::vector<float> whole = runner.last_logits(golden.prompt, golden.prompt.size());
    ASSERT_EQ(runner.last_logits(golden.prompt, 5), whole);
    ASSERT_EQ(runner.decoded_logits(golden.prompt).back(), whole);
    const auto want = golden.row(golden.logits_f32, golden.prompt.size() - 1);
    double magnitude = 0;
    for (float logit : want) magnitude = std::max<double>(magnitude, std::abs(logit));
    // The weights are bfloat16 in both; activations are rounded some 20 times.
    EXPECT_LE(testing::largest_abs_error(whole, want), 0.1 * magnitude);
  }
}

// Greedy tokens of all prompts in one batch: prompts of all lengths in the first step, then uniform
// decode steps. Returns the logits of all steps.
class Batch {
 public:
  Batch(TinyEngine& engine, const std::vector<GoldenCase>& cases)
      : engine_(engine), cases_(cases), computed_(cases.size(), 0) {
    for (const GoldenCase& golden : cases) {
      texts_.push_back(golden.prompt);
      std::vector<kv_cache::BlockId> own;
      for (int32_t i = 0; i < kBlocksPerRequest; ++i) {
        own.push_back(
            kv_cache::BlockId{1 + static_cast<int32_t>(texts_.size() - 1) * kBlocksPerRequest + i});
      }
      blocks_.push_back(own);
    }
  }

  std::vector<float> run() {
    std::vector<float> all;
    for (size_t step = 0; step < cases_[0].continuation.size(); ++step) {
      run_step(step, all);
      if (::testing::Test::HasFatalFailure()) return all;
    }
    return all;
  }

 private:
  static constexpr int32_t kBlocksPerRequest = 6;  // 96 positions

  void run_step(size_t step, std::vector<float>& all) {
    std::vector<scheduler::StepEntry> rows;
    int32_t num_tokens = 0;
    for (size_t i = 0; i < texts_.size(); ++i) {
      rows.push_back({.token_ids = std::span<const int32_t>(texts_[i]).subspan(computed_[i]),
                      .num_computed_tokens = static_cast<int32_t>(computed_[i]),
                      .block_ids = blocks_[i],
                      .state_slot = kv_cache::StateSlot{static_cast<int32_t>(7 - i)},
                      .samples = true});
      num_tokens += static_cast<int32_t>(rows.back().token_ids.size());
    }
    const runner::StepResult& result =
        engine_.runner().execute(rows,
                                 {.num_tokens = num_tokens,
                                  .num_reqs = static_cast<int32_t>(rows.size()),
                                  .uniform = step > 0});
    for (size_t i = 0; i < texts_.size(); ++i) {
      computed_[i] = texts_[i].size();
      const std::span<const float> logits =
          engine_.runner().logits_row(result, static_cast<int32_t>(i));
      ASSERT_GT(cases_[i].margins[step], 4e-4) << "a near tie: choose other prompts";
      ASSERT_EQ(testing::argmax(logits), cases_[i].continuation[step])
          << "prompt " << i << ", token " << step;
      texts_[i].push_back(cases_[i].continuation[step]);
      all.insert(all.end(), logits.begin(), logits.end());
    }
  }

  TinyEngine& engine_;
  const std::vector<GoldenCase>& cases_;
  std::vector<size_t> computed_;
  std::vector<std::vector<int32_t>> texts_;
  std::vector<std::vector<kv_cache::BlockId>> blocks_;
};

TEST_P(ArchitectureGoldens, greedy_tokens_are_those_of_transformers_in_every_mode_and_level) {
  for (const config::CompilationMode level :
       {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
    std::vector<float> eager;
    for (const CudagraphMode mode : {CudagraphMode::NONE,
                                     CudagraphMode::PIECEWISE,
                                     CudagraphMode::FULL,
                                     CudagraphMode::FULL_DECODE_ONLY,
                                     CudagraphMode::FULL_AND_PIECEWISE}) {
      SCOPED_TRACE(::testing::Message() << "level " << config::to_string(level) << ", mode "
                                        << cudagraph::to_string(mode));
      TinyEngine engine({.mode = mode,
                         .level = level,
                         .num_blocks = 40,
                         .dtype = DType::f32,
                         .verify_graphs = cudagraph::VerifyGraphs::strict,
                         .model = testing::golden_folder(GetParam())});
      const cudagraph::CaptureReport report = engine.runner().capture({});
      for (const auto& record : report.records) {
        EXPECT_EQ(record.failure, "");
        EXPECT_EQ(record.verdict, cudagraph::CaptureVerdict::proved);
      }
      EXPECT_EQ(report.violation, "");
      const std::vector<float> logits = Batch(engine, cases_).run();
      if (HasFatalFailure()) return;
      if (eager.empty()) eager = logits;
      ASSERT_EQ(logits, eager) << "replay changed bits";
    }
  }
}

// Every replay is compared with an eager run, and none differs.
void check_all_replays(const char* model,
                       const std::vector<GoldenCase>& cases,
                       CudagraphMode mode,
                       config::CompilationMode level) {
  SCOPED_TRACE(::testing::Message()
               << "level " << config::to_string(level) << ", mode " << cudagraph::to_string(mode));
  TinyEngine engine({.mode = mode,
                     .level = level,
                     .num_blocks = 40,
                     .dtype = DType::f32,
                     .model = testing::golden_folder(model),
                     .shadow = {.rate = 1}});
  (void)engine.runner().capture({});
  (void)Batch(engine, cases).run();
  const runner::ShadowCheck& shadow = *engine.runner().shadow();
  EXPECT_EQ(shadow.num_checks() > 0, mode != CudagraphMode::NONE);
  EXPECT_EQ(shadow.num_differences(), 0U);
  for (const runner::QuarantinedKey& key : shadow.keys()) ADD_FAILURE() << key.difference;
}

TEST_P(ArchitectureGoldens, shadow_checks_find_no_difference_in_any_mode_and_level) {
  for (const config::CompilationMode level :
       {config::CompilationMode::NONE, config::CompilationMode::VLLM_COMPILE}) {
    for (const CudagraphMode mode : testing::kModes) {
      check_all_replays(GetParam(), cases_, mode, level);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(models,
                         ArchitectureGoldens,
                         ::testing::ValuesIn(testing::kArchitectureGoldens),
                         [](const auto& param_info) {
                           return testing::test_name(param_info.param);
                         });

}  // namespace
}  // namespace reprise
