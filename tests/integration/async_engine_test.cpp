#include "reprise/api/async_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "reprise/api/async_engine_loop.h"
#include "reprise/base/error.h"
#include "reprise/device/fake/fake_device.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/integration/tiny_engine.h"

// Requests from many threads through the bundled model. What is expected of a request is always
// what LLM::generate, or a core of its own, says for the same prompt alone.
namespace reprise {
namespace {

using api::AsyncEngine;
using api::AsyncEngineLoop;
using api::AsyncOutput;
using api::AsyncRequestId;
using api::EngineArgs;
using api::EngineStats;
using api::LLM;
using ::testing::HasSubstr;
using testing::TinyEngine;
using testing::TinyEngineOptions;
using Tokens = std::vector<int32_t>;

std::filesystem::path model_folder() {
  return std::filesystem::path(REPRISE_SOURCE_DIR) / "models/reprise-tiny";
}

EngineArgs arguments() {
  EngineArgs args;
  args.model = model_folder();
  // Small limits: fewer graphs, prompts that have to be cut, requests that have to wait.
  args.max_num_seqs = 4;
  args.max_num_batched_tokens = 32;
  args.max_model_len = 128;
  args.num_threads = 2;
  args.compilation_config = {{"cudagraph_mode", "FULL_AND_PIECEWISE"}};
  return args;
}

sampling::SamplingParams greedy(int max_tokens = 16) {
  return {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
}

/// Prompts of 1 to 60 tokens.
std::vector<Tokens> make_prompts(size_t count, uint32_t seed = 3) {
  std::mt19937 random(seed);
  std::vector<Tokens> prompts(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k <= i * 11 % 60; ++k)
      prompts[i].push_back(static_cast<int32_t>(100 + random() % 400));
  }
  return prompts;
}

/// What each prompt is answered alone.
std::vector<Tokens> alone(LLM& llm, const std::vector<Tokens>& prompts, int max_tokens = 16) {
  std::vector<Tokens> answers;
  for (const Tokens& prompt : prompts) {
    answers.push_back(
        llm.generate_token_ids(std::span(&prompt, 1), greedy(max_tokens)).front().output.token_ids);
  }
  return answers;
}

/// Everything one request was told; filled on the engine's thread, read after wait().
class Answer {
 public:
  struct Contents {
    std::string text;
    Tokens token_ids;
    int num_outputs = 0;
    bool finished = false;
    std::string finish_reason;
    engine::StopReason stop_reason;
    std::string error;
    int32_t num_prompt_tokens = 0;
    int32_t num_output_tokens = 0;
    std::string broken_rule;
  };

  [[nodiscard]] api::OnAsyncOutput callback() {
    return [this](const AsyncOutput& output) { take(output); };
  }
  /// Returns when finished.
  const Contents& wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [this] { return contents_.finished; })) {
      ADD_FAILURE() << "no last output within a minute";
    }
    return contents_;
  }
  void wait_for_outputs(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60), [this, count] {
      return contents_.finished || contents_.num_outputs >= count;
    });
  }

 private:
  void take(const AsyncOutput& output) {
    const std::lock_guard lock(mutex_);
    Contents& all = contents_;
    if (all.finished) all.broken_rule = "an output after the last one";
    if (id_ && *id_ != output.id) all.broken_rule = "another request's output";
    id_ = output.id;
    ++all.num_outputs;
    all.text += output.text;
    all.token_ids.insert(all.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
    if (static_cast<size_t>(output.num_output_tokens) != all.token_ids.size()) {
      all.broken_rule = "num_output_tokens is not the number of tokens so far";
    }
    if (!output.finished && !output.finish_reason.empty()) all.broken_rule = "a reason too early";
    all.finished = output.finished;
    all.finish_reason = output.finish_reason;
    all.stop_reason = output.stop_reason;
    all.error = output.error;
    all.num_prompt_tokens = output.num_prompt_tokens;
    all.num_output_tokens = output.num_output_tokens;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Contents contents_;
  std::optional<AsyncRequestId> id_;
};

/// One engine for the tests that need no special one.
class SharedEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prompts = make_prompts(12);
    {
      LLM llm(arguments());
      expected = alone(llm, prompts);
    }
    engine = std::make_unique<AsyncEngine>(arguments());
  }
  static void TearDownTestSuite() { engine.reset(); }

  static inline std::vector<Tokens> prompts;
  static inline std::vector<Tokens> expected;
  static inline std::unique_ptr<AsyncEngine> engine;
};

using AsyncEngineTest = SharedEngine;

TEST_F(AsyncEngineTest, answers_four_threads_as_generate_does_each_prompt_alone) {
  const EngineStats before = engine->stats();
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 2;
  std::array<std::deque<Answer>, kThreads> answers;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kRounds * prompts.size(); ++i) {
        (void)engine->submit(
            prompts[(i + 3 * t) % prompts.size()], greedy(), answers[t].emplace_back().callback());
        if (i % 8 == 7) (void)answers[t].back().wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t prompt_tokens = 0;
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < answers[t].size(); ++i) {
      const size_t which = (i + 3 * t) % prompts.size();
      const Answer::Contents& answer = answers[t][i].wait();
      EXPECT_EQ(answer.token_ids, expected[which]) << "thread " << t << ", request " << i;
      EXPECT_EQ(answer.finish_reason, "length");
      EXPECT_EQ(answer.broken_rule, "");
      EXPECT_EQ(answer.num_prompt_tokens, prompts[which].size());
      EXPECT_EQ(answer.text, engine->tokenizer().decode(expected[which]));
      prompt_tokens += prompts[which].size();
    }
  }
  const EngineStats stats = engine->stats();
  const uint64_t num_requests = kThreads * kRounds * prompts.size();
  EXPECT_EQ(stats.num_finished_length - before.num_finished_length, num_requests);
  EXPECT_EQ(stats.generation_tokens - before.generation_tokens, num_requests * 16);
  EXPECT_EQ(stats.prompt_tokens - before.prompt_tokens, prompt_tokens);
  EXPECT_EQ(stats.num_preemptions, 0U);
  EXPECT_EQ(stats.steps_full + stats.steps_piecewise + stats.steps_eager, stats.num_steps);
  EXPECT_GT(stats.steps_full, 0U);
  EXPECT_GT(stats.steps_piecewise, 0U);
  EXPECT_EQ(stats.num_requests_running, 0);
  EXPECT_EQ(stats.num_requests_waiting, 0);
  EXPECT_EQ(stats.kv_cache_usage, 0);
  EXPECT_FALSE(stats.is_dead);
}

}  // namespace
}  // namespace reprise
