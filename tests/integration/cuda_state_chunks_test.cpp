#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/cuda_engine_machine.h"
#include "tests/integration/goldens.h"
#include "tests/integration/step_outcome.h"

// Engines with recurrent layers whose prompts are computed in chunks on CUDA: bfloat16 over the
// fake driver, without a library for products, so that no other kernel's bits depend on the shape
// of a step.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::CudagraphRuntimeMode;
using testing::CudaEngineMachine;
using testing::TinyEngine;
using testing::TinyEngineOptions;

constexpr int kPrompt = 141;  // two chunks and 13 tokens

class CudaStateChunks : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { machine = std::make_unique<CudaEngineMachine>(); }
  static void TearDownTestSuite() { machine.reset(); }

  static TinyEngineOptions options() {
    TinyEngineOptions options{.mode = CudagraphMode::FULL_AND_PIECEWISE,
                              .level = CompilationMode::NONE,
                              .max_num_tokens = 160,
                              .max_num_reqs = 2,
                              .num_blocks = 16,
                              .dtype = DType::bf16,
                              .verify_graphs = cudagraph::VerifyGraphs::strict,
                              .model = testing::golden_folder(GetParam())};
    options.compilation.cudagraph_capture_sizes = std::vector<int32_t>{1, 8};
    TinyEngineOptions on_gpu = machine->options(options);
    on_gpu.generator.reset();
    return on_gpu;
  }

  static std::vector<int32_t> prompt() {
    std::vector<int32_t> tokens(kPrompt + 3);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(3 + i * 7 % 50);
    return tokens;
  }

  /// Computes [begin, end) of the tokens, and returns the logits of the last one.
  static std::vector<float> step(TinyEngine& engine,
                                 std::span<const int32_t> tokens,
                                 int begin,
                                 int end,
                                 bool is_replayed = true) {
    static const std::vector<kv_cache::BlockId> kBlocks = [] {
      std::vector<kv_cache::BlockId> blocks;
      for (int i = 1; i < 12; ++i) blocks.push_back(kv_cache::BlockId{i});
      return blocks;
    }();
    const scheduler::StepEntry row = {
        .token_ids = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
        .num_computed_tokens = begin,
        .block_ids = kBlocks,
        .state_slot = kv_cache::StateSlot{2},
        .samples = true};
    const cudagraph::Decision decision = engine.runner().dispatcher().dispatch(
        {.num_tokens = end - begin, .num_reqs = 1, .uniform = end - begin == 1});
    return engine.logits(engine.runner().run(
        {&row, 1}, decision, is_replayed ? decision.mode : CudagraphRuntimeMode::NONE));
  }

  static std::unique_ptr<CudaEngineMachine> machine;
};
std::unique_ptr<CudaEngineMachine> CudaStateChunks::machine;

TEST_P(CudaStateChunks, give_a_prompt_and_its_answer_the_same_logits_in_every_division) {
  TinyEngine engine(options());
  (void)engine.runner().capture({});
  const std::vector<int32_t> tokens = prompt();
  std::vector<std::vector<float>> first;
  for (const std::vector<int>& ends : {std::vector<int>{kPrompt},
                                       std::vector<int>{64, kPrompt},
                                       std::vector<int>{128, kPrompt},
                                       std::vector<int>{64, 128, kPrompt}}) {
    int begin = 0;
    std::vector<std::vector<float>> logits;
    for (int end : ends) {
      logits.push_back(step(engine, tokens, std::exchange(begin, end), end));
    }
    logits.erase(logits.begin(), logits.end() - 1);
    for (int i = 0; i < 3; ++i) {
      logits.push_back(step(engine, tokens, kPrompt + i, kPrompt + i + 1, i != 1));
    }
    if (first.empty()) first = logits;
    EXPECT_EQ(logits, first) << ends.size() << " steps";
  }
}

// A graph of eight tokens has a chunk of eight tokens, and is replayed for prompts of fewer.
TEST_P(CudaStateChunks, replay_short_prompts_with_the_bits_of_eager_steps) {
  TinyEngine engine(options());
  const cudagraph::CaptureReport report = engine.runner().capture({});
  EXPECT_EQ(report.num_with(cudagraph::CaptureVerdict::proved), report.records.size());
  EXPECT_EQ(report.violation, "");
  const std::vector<int32_t> tokens = prompt();
  for (const int end : {2, 5, 8}) {
    EXPECT_EQ(step(engine, tokens, 0, end, true), step(engine, tokens, 0, end, false)) << end;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         CudaStateChunks,
                         ::testing::Values("architectures/mamba2", "architectures/qwen3-next"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name.substr(name.find('/') + 1);
                         });

}  // namespace
}  // namespace reprise
