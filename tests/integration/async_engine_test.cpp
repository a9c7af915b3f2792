#include "reprise/api/async_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "reprise/api/async_engine_loop.h"
#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/engine/engine_core.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/fake_device/fake_device.h"
#include "tests/support/source_dir.h"

// Requests from many threads to the bundled model. The expected answer of a request is always the
// answer of LLM::generate, or of a separate core, to the same prompt alone.
namespace reprise {
namespace {

using api::AsyncEngine;
using api::AsyncEngineLoop;
using api::EngineArgs;
using api::EngineStats;
using api::LLM;
using engine::OutputDelta;
using scheduler::RequestId;
using ::testing::HasSubstr;
using testing::TinyEngine;
using testing::TinyEngineOptions;
using Tokens = std::vector<int32_t>;

// ThreadSanitizer makes a step 40 times slower. Races need threads, so fewer failing calls suffice.
#ifdef __SANITIZE_THREAD__
constexpr int kFewerRequests = 5;
#else
constexpr int kFewerRequests = 1;
#endif

std::filesystem::path model_folder() {
  return std::filesystem::path(source_dir()) / "models/reprise-tiny";
}

EngineArgs streamed_arguments() {
  EngineArgs args;
  args.model = model_folder();
  // Small limits give fewer graphs, prompts that must be cut, and requests that must wait.
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

/// The answer to each prompt alone.
std::vector<Tokens> alone(LLM& llm, const std::vector<Tokens>& prompts, int max_tokens = 16) {
  std::vector<Tokens> answers;
  for (const Tokens& prompt : prompts) {
    answers.push_back(
        llm.generate_token_ids(std::span(&prompt, 1), greedy(max_tokens)).front().output.token_ids);
  }
  return answers;
}

/// All output of one request; filled on the engine's thread, read after wait().
class StreamedAnswer {
 public:
  struct Contents {
    std::string text;
    Tokens token_ids;
    int num_outputs = 0;
    bool finished = false;
    std::string finish_reason;
    scheduler::StopReason stop_reason;
    std::string error;
    int32_t num_prompt_tokens = 0;
    int32_t num_output_tokens = 0;
    std::string broken_rule;
  };

  [[nodiscard]] api::OnDelta callback() {
    return [this](const OutputDelta& output) { take(output); };
  }
  /// Returns when the request is finished.
  const Contents& wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(
            lock, std::chrono::seconds(300), [this] { return contents_.finished; })) {
      ADD_FAILURE() << "no last output within a minute";
    }
    return contents_;
  }
  void wait_for_outputs(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(300), [this, count] {
      return contents_.finished || contents_.num_outputs >= count;
    });
  }

 private:
  void take(const OutputDelta& output) {
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
  std::optional<RequestId> id_;
};

/// One engine for all tests that need no special one.
class SharedEngine : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prompts = make_prompts(12);
    {
      LLM llm(streamed_arguments());
      expected = alone(llm, prompts);
    }
    engine = std::make_unique<AsyncEngine>(streamed_arguments());
  }
  static void TearDownTestSuite() { engine.reset(); }

  static inline std::vector<Tokens> prompts;
  static inline std::vector<Tokens> expected;
  static inline std::unique_ptr<AsyncEngine> engine;
};

using AsyncEngineTest = SharedEngine;

TEST_F(AsyncEngineTest, answers_four_threads_as_generate_does_each_prompt_alone) {
  const EngineStats before = engine->stats();
  const Json chat = {{{"role", "user"}, {"content", "How many apples?"}}};
  const std::string chat_prompt = engine->apply_chat_template(chat);
  const Tokens chat_token_ids = engine->tokenizer().encode(chat_prompt);
  constexpr size_t kThreads = 4;
  constexpr size_t kRounds = 2;
  std::array<std::deque<StreamedAnswer>, kThreads> answers;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kRounds * prompts.size(); ++i) {
        (void)engine->submit(
            prompts[(i + 3 * t) % prompts.size()], greedy(), answers[t].emplace_back().callback());
        if (i % 8 == 7) (void)answers[t].back().wait();
        // A server makes these calls while the engine runs.
        EXPECT_EQ(engine->apply_chat_template(chat), chat_prompt);
        EXPECT_EQ(engine->tokenizer().encode(chat_prompt), chat_token_ids);
        EXPECT_LE(engine->stats().num_requests_running, 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t prompt_tokens = 0;
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < answers[t].size(); ++i) {
      const size_t which = (i + 3 * t) % prompts.size();
      const StreamedAnswer::Contents& answer = answers[t][i].wait();
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

TEST_F(AsyncEngineTest, stops_at_stop_strings_and_samples_as_generate_does) {
  LLM llm(streamed_arguments());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string text = engine->tokenizer().decode(expected[i]);
    sampling::SamplingParams params = greedy();
    // Takes two characters from the middle of the text, so that one of them has to be held back.
    for (size_t at = text.size() / 2; at + 2 <= text.size() && params.stop.empty(); ++at) {
      const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
      if (is_ascii(text[at]) && is_ascii(text[at + 1])) params.stop = {text.substr(at, 2)};
    }
    sampling::SamplingParams seeded = greedy();
    seeded.temperature = 1;
    seeded.seed = static_cast<int64_t>(i);
    for (const sampling::SamplingParams& asked : {params, seeded}) {
      const api::CompletionOutput alone =
          llm.generate_token_ids(std::span(&prompts[i], 1), asked).front().output;
      StreamedAnswer answer;
      (void)engine->submit(prompts[i], asked, answer.callback());
      const StreamedAnswer::Contents& contents = answer.wait();
      EXPECT_EQ(contents.text, alone.text) << i;
      EXPECT_EQ(contents.token_ids, alone.token_ids) << i;
      EXPECT_EQ(contents.finish_reason, alone.finish_reason) << i;
      EXPECT_EQ(contents.stop_reason, alone.stop_reason) << i;
      EXPECT_EQ(contents.broken_rule, "") << i;
    }
  }
  EXPECT_GT(engine->stats().num_finished_stop, 0U);
}

TEST_F(AsyncEngineTest, refuses_what_can_never_run_on_the_callers_thread) {
  const EngineStats before = engine->stats();
  const auto refusal = [](const Tokens& prompt, const sampling::SamplingParams& params) {
    try {
      (void)engine->submit(prompt, params, [](const OutputDelta&) { ADD_FAILURE(); });
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("(not refused)");
  };
  EXPECT_THAT(refusal({}, greedy()), HasSubstr("empty"));
  EXPECT_THAT(refusal(Tokens(128, 5), greedy()), HasSubstr("max_model_len"));
  EXPECT_THAT(refusal({1, -1}, greedy()), HasSubstr("prompt token 1"));
  EXPECT_THAT(refusal({1}, {.temperature = -1}), HasSubstr("temperature"));
  EXPECT_EQ(engine->stats().num_requests_waiting, 0);
  EXPECT_EQ(engine->stats().num_finished_error, before.num_finished_error);
}

TEST_F(AsyncEngineTest, aborts_within_a_step_and_ignores_ids_it_does_not_know) {
  const uint64_t aborted_before = engine->stats().num_finished_abort;
  StreamedAnswer answer;
  std::latch aborted(1);
  // Blocks the engine in its third step until the abort is submitted.
  const RequestId id = engine->submit(
      prompts[0], greedy(100), [&, take = answer.callback()](const OutputDelta& output) {
        take(OutputDelta(output));
        if (output.num_output_tokens == 3) aborted.wait();
      });
  answer.wait_for_outputs(3);
  engine->abort(id);
  aborted.count_down();
  EXPECT_EQ(answer.wait().finish_reason, "abort");
  EXPECT_EQ(answer.wait().num_output_tokens, 3);
  EXPECT_EQ(answer.wait().num_outputs, 4);
  engine->abort(id);
  engine->abort(RequestId{1U << 30});
  StreamedAnswer next;
  (void)engine->submit(prompts[1], greedy(), next.callback());
  EXPECT_EQ(next.wait().token_ids, expected[1]);
  EXPECT_EQ(engine->stats().num_finished_abort, aborted_before + 1);
  EXPECT_EQ(engine->stats().kv_cache_usage, 0);
}

TEST_F(AsyncEngineTest, aborts_the_request_of_a_callback_that_throws_and_no_other) {
  const uint64_t aborted_before = engine->stats().num_finished_abort;
  std::atomic<int> calls = 0;
  StreamedAnswer answer;
  (void)engine->submit(prompts[0], greedy(100), [&](const OutputDelta&) {
    ++calls;
    throw std::bad_alloc();
  });
  (void)engine->submit(prompts[1], greedy(100), answer.callback());
  EXPECT_EQ(answer.wait().finish_reason, "length");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(engine->stats().num_finished_abort, aborted_before + 1);
}

// ---- with a core of the test itself: few blocks, and devices that fail ----

enum class LoopScheduling : uint8_t { sync, async };

/// The bundled model on a given device, with an engine loop.
class LoopOn {
 public:
  LoopOn(TinyEngineOptions options, LoopScheduling scheduling)
      : scheduling_(scheduling),
        max_num_tokens_(options.max_num_tokens),
        max_num_reqs_(options.max_num_reqs),
        tokenizer_(tokenizer::Tokenizer::load(model_folder())),
        tiny_((options.model = model_folder(), options)) {
    (void)tiny_.runner().capture({});
    restart();
  }

  /// Makes a core and a loop in the state after a start, over the same runner.
  void restart() {
    loop_.reset();
    core_ = std::make_unique<engine::EngineCore>(tiny_.runner(), core_options());
    loop_ = std::make_unique<AsyncEngineLoop>(*core_, tokenizer_);
  }
  /// Ends the thread and describes what it has left behind; empty: nothing.
  [[nodiscard]] std::string stop() {
    loop_.reset();
    const kv_cache::KvCacheManager& cache = core_->kv_cache_manager();
    if (core_->has_unfinished_requests()) return "unfinished requests";
    if (cache.num_free_blocks() != cache.num_blocks() - 1) return "blocks that are not free";
    return cache.find_broken_invariant({});
  }
  /// Must not be called while the loop has work.
  [[nodiscard]] std::vector<Tokens> alone(const std::vector<Tokens>& prompts, int max_tokens) {
    std::vector<Tokens> answers;
    for (const Tokens& prompt : prompts) {
      engine::EngineCore core(tiny_.runner(), core_options());
      (void)core.add_request(prompt, greedy(max_tokens));
      Tokens& answer = answers.emplace_back();
      while (core.has_unfinished_requests()) {
        for (const auto& update : core.step()) {
          if (update.new_token_id) answer.push_back(*update.new_token_id);
        }
      }
    }
    return answers;
  }
  AsyncEngineLoop* operator->() { return loop_.get(); }

 private:
  [[nodiscard]] engine::EngineCoreOptions core_options() const {
    return {.scheduler = {.max_num_seqs = max_num_reqs_,
                          .max_num_batched_tokens = max_num_tokens_,
                          .max_model_len = 128,
                          .async_scheduling = scheduling_ == LoopScheduling::async,
                          .vocab_size = static_cast<int>(tiny_.config().vocab_size)}};
  }

  LoopScheduling scheduling_;
  int32_t max_num_tokens_;
  int32_t max_num_reqs_;
  tokenizer::Tokenizer tokenizer_;
  TinyEngine tiny_;
  std::unique_ptr<engine::EngineCore> core_;
  std::unique_ptr<AsyncEngineLoop> loop_;
};

bool is_prefix(const Tokens& tokens, const Tokens& of) {
  return tokens.size() <= of.size() && std::equal(tokens.begin(), tokens.end(), of.begin());
}

class AsyncEngineLoopTest : public ::testing::TestWithParam<LoopScheduling> {};

INSTANTIATE_TEST_SUITE_P(scheduling,
                         AsyncEngineLoopTest,
                         ::testing::Values(LoopScheduling::sync, LoopScheduling::async),
                         [](const auto& param_info) {
                           return param_info.param == LoopScheduling::sync ? "sync" : "async";
                         });

TEST_P(AsyncEngineLoopTest,
       leaks_no_block_and_changes_no_answer_when_requests_are_aborted_anywhere) {
  constexpr size_t kThreads = 3;
  constexpr size_t kRequestsPerThread = 100 / kFewerRequests;
  constexpr int kMaxTokens = 24;
  // 13 usable blocks: four requests of up to 6 blocks do not fit, so some are preempted.
  LoopOn loop({.max_num_tokens = 32, .max_num_reqs = 4, .num_blocks = 14}, GetParam());
  const std::vector<Tokens> prompts = make_prompts(16);
  const std::vector<Tokens> expected = loop.alone(prompts, kMaxTokens);

  struct Sent {
    size_t prompt = 0;
    bool may_abort = false;
    StreamedAnswer answer;
  };
  std::array<std::deque<Sent>, kThreads> sent;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::vector<RequestId> to_abort;
      for (size_t i = 0; i < kRequestsPerThread; ++i) {
        Sent& request = sent[t].emplace_back();
        request.prompt = random() % prompts.size();
        const uint32_t how = random() % 8;  // 0: at once, 1: in a callback, 2: later, else never
        request.may_abort = how <= 2;
        api::OnDelta callback = request.answer.callback();
        if (how == 1) {
          callback = [&loop, take = std::move(callback), left = 1 + random() % kMaxTokens](
                         const OutputDelta& output) mutable {
            take(OutputDelta(output));
            if (--left == 0) loop->abort(output.id);
          };
        }
        const RequestId id =
            loop->submit(prompts[request.prompt], greedy(kMaxTokens), std::move(callback));
        if (how == 0) loop->abort(id);
        if (how == 2) to_abort.push_back(id);
        if (random() % 4 == 0) {
          for (const RequestId late : to_abort) loop->abort(late);
          to_abort.clear();
        }
        if (i % 16 == 15) (void)request.answer.wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t num_aborted = 0;
  uint64_t prompt_tokens = 0;  // of requests that got a token
  uint64_t num_with_tokens = 0;
  for (std::deque<Sent>& requests : sent) {
    for (Sent& request : requests) {
      const StreamedAnswer::Contents& answer = request.answer.wait();
      const Tokens& whole = expected[request.prompt];
      EXPECT_EQ(answer.broken_rule, "");
      if (!answer.token_ids.empty()) {
        ++num_with_tokens;
        prompt_tokens += prompts[request.prompt].size();
      }
      if (request.may_abort && answer.finish_reason == "abort") {
        ++num_aborted;
        EXPECT_TRUE(is_prefix(answer.token_ids, whole));
      } else {
        EXPECT_EQ(answer.finish_reason, "length");
        EXPECT_EQ(answer.token_ids, whole);
      }
    }
  }
  const EngineStats stats = loop->stats();
  EXPECT_EQ(stats.num_finished_abort, num_aborted);
  EXPECT_EQ(stats.num_finished_length, kThreads * kRequestsPerThread - num_aborted);
  EXPECT_GT(num_aborted, kThreads * kRequestsPerThread / 10);
  EXPECT_GT(stats.num_preemptions, 0U);
  // Tokens that are computed again after a preemption are not counted again.
  EXPECT_EQ(stats.prompt_tokens, prompt_tokens);
  const api::RequestHistograms& requests = stats.requests;
  EXPECT_EQ(requests.time_to_first_token.count(), num_with_tokens);
  EXPECT_EQ(requests.inter_token_latency.count(), stats.generation_tokens - num_with_tokens);
  EXPECT_EQ(requests.generation_tokens.count(), stats.num_finished_length);
  EXPECT_EQ(requests.generation_tokens.sum(), stats.num_finished_length * kMaxTokens);
  EXPECT_EQ(requests.queue_time.count(), stats.num_finished_length);
  EXPECT_EQ(stats.tokens_per_step.count(), stats.num_steps);
  // With asynchronous scheduling, a running step may still hold the last request.
  EXPECT_TRUE(stats.kv_cache_usage == 0 || GetParam() == LoopScheduling::async);
  EXPECT_EQ(loop.stop(), "");
}

TEST_P(AsyncEngineLoopTest, gives_every_request_in_flight_its_last_output_before_it_is_gone) {
  LoopOn loop({.max_num_tokens = 32, .max_num_reqs = 4}, GetParam());
  const std::vector<Tokens> prompts = make_prompts(12);
  for (int num_outputs = 0; num_outputs < 6; ++num_outputs) {
    std::deque<StreamedAnswer> answers;
    for (const Tokens& prompt : prompts) {
      (void)loop->submit(prompt, greedy(60), answers.emplace_back().callback());
    }
    if (num_outputs > 0) answers.front().wait_for_outputs(num_outputs);
    ASSERT_EQ(loop.stop(), "");
    for (StreamedAnswer& answer : answers) {
      // On a busy machine the first requests may already be finished.
      EXPECT_THAT(answer.wait().finish_reason, ::testing::AnyOf("abort", "length"));
      EXPECT_EQ(answer.wait().broken_rule, "");
    }
    loop.restart();
  }
}

struct FailingDeviceCase {
  const char* name;
  cudagraph::CudagraphMode mode;
  config::CompilationMode level;
  // Distance between the failing calls: a prime number, so that calls of all kinds fail.
  uint64_t stride;
  LoopScheduling scheduling = LoopScheduling::sync;
};

class FailingDevice : public ::testing::TestWithParam<FailingDeviceCase> {
 protected:
  static constexpr int kMaxTokens = 6;
  static constexpr size_t kMaxNumReqs = 3;  // 7 requests are sent, so some of them wait

  [[nodiscard]] TinyEngineOptions options(device::FakeDevice& fake) const {
    return {.mode = GetParam().mode,
            .level = GetParam().level,
            .max_num_tokens = 16,
            .max_num_reqs = kMaxNumReqs,
            .num_blocks = 40,
            .device = &fake};
  }
  static void submit_all(LoopOn& loop,
                         const std::vector<Tokens>& prompts,
                         std::deque<StreamedAnswer>& answers) {
    for (const Tokens& prompt : prompts) {
      (void)loop->submit(prompt, greedy(kMaxTokens), answers.emplace_back().callback());
    }
  }
};

TEST_P(FailingDevice, at_any_call_ends_only_the_requests_of_that_step) {
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  LoopOn loop(options(*fake), GetParam().scheduling);
  const std::vector<Tokens> prompts = make_prompts(7);
  const std::vector<Tokens> expected = loop.alone(prompts, kMaxTokens);
  uint64_t num_errors = 0;
  uint64_t num_failures = 0;
  for (uint64_t k = 1;; k += GetParam().stride * kFewerRequests) {
    fake->clear_call_log();
    fake->fail_call(k);
    std::deque<StreamedAnswer> answers;
    submit_all(loop, prompts, answers);
    size_t num_failed = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const StreamedAnswer::Contents& answer = answers[i].wait();
      ASSERT_EQ(answer.broken_rule, "") << "call " << k << ", request " << i;
      if (answer.finish_reason == "error") {
        ++num_failed;
        EXPECT_THAT(answer.error, HasSubstr("as the test asked"));
        EXPECT_TRUE(is_prefix(answer.token_ids, expected[i])) << "call " << k << ", request " << i;
      } else {
        EXPECT_EQ(answer.finish_reason, "length") << "call " << k << ", request " << i;
        ASSERT_EQ(answer.token_ids, expected[i]) << "call " << k << ", request " << i;
      }
    }
    const bool has_failed = fake->num_calls() >= k;
    fake->fail_call(0);
    EXPECT_EQ(num_failed > 0, has_failed) << "call " << k;
    EXPECT_LE(num_failed, kMaxNumReqs) << "call " << k;
    const EngineStats stats = loop->stats();
    num_errors += num_failed;
    EXPECT_EQ(stats.num_finished_error, num_errors);
    EXPECT_TRUE(stats.kv_cache_usage == 0 || GetParam().scheduling == LoopScheduling::async)
        << "call " << k;
    EXPECT_FALSE(stats.is_dead);
    if (!has_failed) break;
    ++num_failures;

    std::deque<StreamedAnswer> next;
    submit_all(loop, prompts, next);
    for (size_t i = 0; i < next.size(); ++i) {
      ASSERT_EQ(next[i].wait().token_ids, expected[i]) << "after call " << k << ", request " << i;
    }
  }
  // The number of calls depends on which requests share a step.
  EXPECT_GE(num_failures, 5U);
  EXPECT_EQ(loop.stop(), "");
  RecordProperty("failures", static_cast<int>(num_failures));
}

TEST_P(FailingDevice, that_is_lost_ends_everything_and_every_later_request_at_once) {
  const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
  LoopOn loop(options(*fake), GetParam().scheduling);
  const std::vector<Tokens> prompts = make_prompts(7);
  const std::vector<Tokens> expected = loop.alone(prompts, kMaxTokens);
  for (uint64_t k = 1; k < 40; k += 5) {
    fake->fail_call(k, device::DeviceError::Severity::sticky);
    std::deque<StreamedAnswer> answers;
    submit_all(loop, prompts, answers);
    size_t num_errors = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const StreamedAnswer::Contents& answer = answers[i].wait();
      EXPECT_EQ(answer.broken_rule, "");
      num_errors += static_cast<size_t>(answer.finish_reason == "error");
      if (answer.finish_reason != "error") continue;
      EXPECT_THAT(answer.error, HasSubstr("engine is dead"));
      EXPECT_TRUE(is_prefix(answer.token_ids, expected[i]));
    }
    EXPECT_GT(num_errors, 0U) << "call " << k;
    EXPECT_TRUE(loop->stats().is_dead);
    EXPECT_EQ(loop->stats().kv_cache_usage, 0);

    StreamedAnswer late;
    (void)loop->submit(prompts[0], greedy(), late.callback());
    EXPECT_EQ(late.wait().finish_reason, "error");
    EXPECT_EQ(late.wait().num_outputs, 1);
    EXPECT_EQ(late.wait().num_prompt_tokens, static_cast<int32_t>(prompts[0].size()));
    EXPECT_EQ(loop->stats().num_finished_error, num_errors + 1);
    EXPECT_EQ(loop->stats().num_requests_waiting, 0);
    EXPECT_EQ(loop.stop(), "");
    fake->fail_call(0);
    loop.restart();
  }
}

INSTANTIATE_TEST_SUITE_P(
    modes,
    FailingDevice,
    ::testing::Values(FailingDeviceCase{"eager",
                                        cudagraph::CudagraphMode::NONE,
                                        config::CompilationMode::NONE,
                                        13},
                      FailingDeviceCase{"graphs",
                                        cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                                        config::CompilationMode::NONE,
                                        7},
                      FailingDeviceCase{"graphs_async",
                                        cudagraph::CudagraphMode::FULL_AND_PIECEWISE,
                                        config::CompilationMode::NONE,
                                        11,
                                        LoopScheduling::async},
                      FailingDeviceCase{"compiled_piecewise",
                                        cudagraph::CudagraphMode::PIECEWISE,
                                        config::CompilationMode::VLLM_COMPILE,
                                        11}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace reprise
