#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "tests/integration/golden_runner.h"
#include "tests/integration/goldens.h"
#include "tests/integration/tiny_engine.h"

// A tiny checkpoint of every architecture through the whole engine core: whatever the scheduler
// does with a request, its greedy tokens are those that Transformers computed for it alone.
namespace reprise {
namespace {

using testing::GoldenCase;
using testing::TinyEngine;
using Tokens = std::vector<int32_t>;

constexpr int32_t kMaxNumReqs = 4;
constexpr int32_t kGoldenSnapshots = 16;
// The longest request has 88 tokens and so six blocks. The four requests need 18 blocks at their
// ends, and one block is the null block.
constexpr int64_t kEnoughBlocks = 40;
constexpr int64_t kFewBlocks = 9;

struct Question {
  Tokens prompt;
  Tokens answer;  // that Transformers gave
};

struct ScheduledAnswer {
  Tokens tokens;
  int num_cached = 0;
};

/// All cases of a checkpoint, the longest first, so that later requests wait for its chunks.
std::vector<Question> questions_of(const std::vector<GoldenCase>& cases) {
  std::vector<Question> questions;
  for (const GoldenCase& golden : cases) questions.push_back({golden.prompt, golden.continuation});
  std::ranges::reverse(questions);
  return questions;
}

/// Prompts that contain a part of a case's answer: 0, 8, 9 and 20 of its tokens are known already.
std::vector<Question> continued(const GoldenCase& golden) {
  std::vector<Question> questions;
  for (const size_t num_known : {0, 8, 9, 20}) {
    const auto known = golden.continuation.begin() + static_cast<std::ptrdiff_t>(num_known);
    Question question{golden.prompt, {known, golden.continuation.end()}};
    question.prompt.insert(question.prompt.end(), golden.continuation.begin(), known);
    questions.push_back(std::move(question));
  }
  return questions;
}

class SchedulingGoldens : public ::testing::TestWithParam<const char*> {
 protected:
  void make_engine(int64_t num_blocks) {
    engine_ = std::make_unique<TinyEngine>(
        testing::TinyEngineOptions{.max_num_tokens = 64,
                                   .max_num_reqs = kMaxNumReqs,
                                   .num_blocks = num_blocks,
                                   .dtype = DType::f32,
                                   .model = testing::golden_folder(GetParam()),
                                   .num_state_snapshots = kGoldenSnapshots});
    for (const auto& record : engine_->runner().capture({}).records) {
      EXPECT_EQ(record.failure, "");
    }
  }

  /// \pre the engine exists
  std::unique_ptr<engine::EngineCore> make_core(int max_num_batched_tokens,
                                                bool caches,
                                                bool is_async = false) {
    engine_->randomize_kv(7);  // a core must not find data of an earlier core
    return std::make_unique<engine::EngineCore>(
        engine_->runner(),
        engine::EngineCoreOptions{
            .scheduler = {.max_num_seqs = kMaxNumReqs,
                          .max_num_batched_tokens = max_num_batched_tokens,
                          .max_model_len = 96,
                          .scheduler_reserve_full_isl = false,
                          .async_scheduling = is_async,
                          .vocab_size = static_cast<int>(engine_->config().vocab_size)},
            .enable_prefix_caching = caches,
            .num_state_snapshots =
                caches && engine_->config().num_recurrent_layers() > 0 ? kGoldenSnapshots : 0});
  }

  /// Runs all questions at once.
  static std::vector<ScheduledAnswer> ask(engine::EngineCore& core,
                                          const std::vector<Question>& questions) {
    std::map<scheduler::RequestId, size_t> places;
    for (const Question& question : questions) {
      const scheduler::RequestId id =
          core.add_request(question.prompt,
                           {.temperature = 0,
                            .max_tokens = static_cast<int>(question.answer.size()),
                            .ignore_eos = true});
      places.emplace(id, places.size());
    }
    std::vector<ScheduledAnswer> answers(questions.size());
    while (core.has_unfinished_requests()) {
      for (const auto& update : core.step()) {
        ScheduledAnswer& answer = answers[places.at(update.request->id())];
        answer.num_cached = update.request->num_cached_tokens();
        if (update.new_token_id) answer.tokens.push_back(*update.new_token_id);
      }
    }
    EXPECT_EQ(core.counters().num_failed_steps, 0U);
    return answers;
  }

  static void expect_answers(const std::vector<ScheduledAnswer>& answers,
                             const std::vector<Question>& questions) {
    for (size_t i = 0; i < questions.size(); ++i) {
      EXPECT_EQ(answers[i].tokens, questions[i].answer)
          << "request " << i << ", a prompt of " << questions[i].prompt.size() << " tokens";
    }
  }

  std::vector<GoldenCase> cases_ = testing::load_goldens(GetParam());
  std::unique_ptr<TinyEngine> engine_;
};

TEST_P(SchedulingGoldens,
       tokens_are_those_of_transformers_in_batches_of_chunks_and_cached_prefixes) {
  make_engine(kEnoughBlocks);
  const std::vector<Question> questions = questions_of(cases_);
  for (const int max_num_batched_tokens : {64, 8, 5}) {
    SCOPED_TRACE(::testing::Message() << max_num_batched_tokens << " tokens per step");
    expect_answers(ask(*make_core(max_num_batched_tokens, /*caches=*/false), questions), questions);
  }
  for (const int max_num_batched_tokens : {64, 8}) {
    SCOPED_TRACE(::testing::Message() << "cached, " << max_num_batched_tokens << " per step");
    const auto core = make_core(max_num_batched_tokens, /*caches=*/true);
    expect_answers(ask(*core, questions), questions);
    const std::vector<Question> seconds = continued(cases_.back());
    const std::vector<ScheduledAnswer> answers = ask(*core, seconds);
    expect_answers(answers, seconds);
    for (size_t i = 0; i < seconds.size(); ++i) {
      EXPECT_GE(answers[i].num_cached, 32) << "request " << i;
    }
    EXPECT_EQ(core->scheduler().num_preemptions(), 0);
  }
}

TEST_P(SchedulingGoldens, tokens_are_those_of_transformers_after_preemptions) {
  make_engine(kFewBlocks);
  const std::vector<Question> questions = questions_of(cases_);
  for (const auto& [caches, is_async] : {std::pair{false, false}, {true, false}, {true, true}}) {
    SCOPED_TRACE(::testing::Message() << "caches " << caches << ", async " << is_async);
    const auto core = make_core(/*max_num_batched_tokens=*/8, caches, is_async);
    expect_answers(ask(*core, questions), questions);
    EXPECT_GT(core->scheduler().num_preemptions(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(models,
                         SchedulingGoldens,
                         ::testing::ValuesIn(testing::kArchitectureGoldens),
                         [](const auto& param_info) {
                           return testing::test_name(param_info.param);
                         });

}  // namespace
}  // namespace reprise
