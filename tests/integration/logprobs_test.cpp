#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "reprise/engine/engine_core.h"
#include "tests/integration/goldens.h"
#include "tests/integration/tiny_engine.h"

// Log-probabilities of prompts and of sampled tokens, against logits of Hugging Face Transformers.
namespace reprise {
namespace {

using config::CompilationMode;
using cudagraph::CudagraphMode;
using cudagraph::DispatchReason;
using sampling::PositionLogprobs;
using sampling::TokenLogprob;
using testing::GoldenCase;
using testing::TinyEngine;

// Logits agree to 1e-4 (goldens_test), and a log-probability adds two errors of that size.
constexpr double kTolerance = 5e-4;
constexpr int kNumTop = 3;

struct ScoredAnswer {
  std::vector<PositionLogprobs> prompt;
  std::vector<PositionLogprobs> output;
  std::vector<int32_t> token_ids;
};

struct ScoringMachine {
  explicit ScoringMachine(const std::string& model,
                          CudagraphMode mode,
                          CompilationMode level,
                          int64_t num_blocks = 64)
      : tiny({.mode = mode,
              .level = level,
              .max_num_tokens = 16,
              .max_num_reqs = 3,
              .max_num_prompt_logits = kMaxPromptLogits,
              .num_blocks = num_blocks,
              .dtype = DType::f32,
              .model = testing::golden_folder(model)}),
        core(tiny.runner(),
             {.scheduler = {.max_num_seqs = 3,
                            .max_num_batched_tokens = 16,
                            .max_model_len = 256,
                            .max_prompt_logits = kMaxPromptLogits,
                            .vocab_size = static_cast<int>(tiny.config().vocab_size)}}) {
    for (const auto& record : tiny.runner().capture({}).records) EXPECT_EQ(record.failure, "");
  }

  std::vector<ScoredAnswer> answer(const std::vector<GoldenCase>& cases) {
    std::map<uint64_t, size_t> index_of;
    std::vector<ScoredAnswer> answers(cases.size());
    for (const GoldenCase& golden : cases) {
      const size_t index = index_of.size();
      index_of[static_cast<uint64_t>(core.add_request(
          golden.prompt,
          {.temperature = 0, .max_tokens = 24, .logprobs = kNumTop, .prompt_logprobs = kNumTop}))] =
          index;
    }
    while (core.has_unfinished_requests()) {
      for (const auto& update : core.step()) {
        ScoredAnswer& answer = answers[index_of.at(static_cast<uint64_t>(update.request->id()))];
        if (update.new_token_id) {
          answer.token_ids.push_back(*update.new_token_id);
          answer.output.push_back(
              {.token = update.sampled->logprob, .top = update.sampled->top_logprobs});
        }
        if (!update.finished) continue;
        EXPECT_EQ(update.request->finish_reason(), "length") << update.request->error();
        const auto prompt = update.request->prompt_logprobs();
        answer.prompt.assign(prompt.begin(), prompt.end());
      }
    }
    return answers;
  }

  // Fewer rows of logits than most prompts have tokens; together with max_num_reqs, fewer than a
  // step has tokens.
  static constexpr int kMaxPromptLogits = 5;
  TinyEngine tiny;
  engine::EngineCore core;
};

double logprob(std::span<const float> logits, int32_t token_id) {
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  return logits[static_cast<size_t>(token_id)] - std::log(sum);
}

void expect_position(const PositionLogprobs& found, std::span<const float> logits, int32_t token) {
  ASSERT_EQ(found.token.token_id, token);
  EXPECT_NEAR(found.token.logprob, logprob(logits, token), kTolerance);
  ASSERT_EQ(found.top.size(), size_t{kNumTop});
  std::vector<float> sorted(logits.begin(), logits.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (size_t i = 0; i < found.top.size(); ++i) {
    // Two tokens whose values differ by less than the tolerance may swap places.
    EXPECT_EQ(found.top[i].rank, static_cast<int>(i) + 1);
    EXPECT_NEAR(found.top[i].logprob, logprob(logits, found.top[i].token_id), kTolerance);
    EXPECT_NEAR(logits[static_cast<size_t>(found.top[i].token_id)], sorted[i], kTolerance);
  }
}

void expect_as_golden(const std::vector<ScoredAnswer>& answers,
                      const std::vector<GoldenCase>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("prompt " + std::to_string(i));
    const GoldenCase& golden = cases[i];
    ASSERT_EQ(answers[i].prompt.size(), golden.prompt.size() - 1);
    for (size_t p = 0; p + 1 < golden.prompt.size(); ++p) {
      SCOPED_TRACE("position " + std::to_string(p));
      expect_position(answers[i].prompt[p], golden.row(golden.logits_f32, p), golden.prompt[p + 1]);
    }
    expect_position(answers[i].output.at(0),
                    golden.row(golden.logits_f32, golden.prompt.size() - 1),
                    answers[i].token_ids.at(0));
  }
}

TEST(Logprobs, of_prompts_and_first_tokens_are_those_of_transformers_in_every_mode) {
  for (const char* model : {"tiny-llama", "tiny-qwen3"}) {
    const std::vector<GoldenCase> cases = testing::load_goldens(model);
    for (CompilationMode level : {CompilationMode::NONE, CompilationMode::VLLM_COMPILE}) {
      for (CudagraphMode mode : {CudagraphMode::NONE,
                                 CudagraphMode::PIECEWISE,
                                 CudagraphMode::FULL,
                                 CudagraphMode::FULL_AND_PIECEWISE}) {
        SCOPED_TRACE(std::string(model) + " " + std::string(to_string(mode)) + " level " +
                     std::to_string(static_cast<int>(level)));
        ScoringMachine machine(model, mode, level);
        expect_as_golden(machine.answer(cases), cases);
        if (mode != CudagraphMode::NONE) {
          EXPECT_GT(machine.core.ledger().steps(DispatchReason::more_logits_rows), 0U);
        }
      }
    }
  }
}

TEST(Logprobs, do_not_depend_on_preemptions) {
  const std::vector<GoldenCase> cases = testing::load_goldens("tiny-llama");
  ScoringMachine roomy("tiny-llama", CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::NONE);
  ScoringMachine tight("tiny-llama", CudagraphMode::FULL_AND_PIECEWISE, CompilationMode::NONE, 6);
  // Runs the cases twice, so that the small cache must take blocks from a request whose prompt was
  // computed.
  std::vector<GoldenCase> twice = cases;
  twice.insert(twice.end(), cases.begin(), cases.end());
  const std::vector<ScoredAnswer> wanted = roomy.answer(twice);
  const std::vector<ScoredAnswer> found = tight.answer(twice);
  EXPECT_GT(tight.core.scheduler().num_preemptions(), 0);
  expect_as_golden(found, twice);
  for (size_t i = 0; i < twice.size(); ++i) {
    EXPECT_EQ(found[i].token_ids, wanted[i].token_ids);
    ASSERT_EQ(found[i].output.size(), found[i].token_ids.size());
    for (size_t t = 0; t < found[i].output.size(); ++t) {
      EXPECT_EQ(found[i].output[t].token.token_id, found[i].token_ids[t]);
      EXPECT_EQ(found[i].output[t].token, found[i].output[t].top[0]) << "greedy is the likeliest";
    }
  }
}

}  // namespace
}  // namespace reprise
