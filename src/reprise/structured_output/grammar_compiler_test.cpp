#include "reprise/structured_output/grammar_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kForever = std::chrono::hours(1);

class EmptySpec final : public CompiledSpec {
 public:
  [[nodiscard]] std::unique_ptr<TokenConstraint> start() const override { return nullptr; }
  [[nodiscard]] size_t memory_bytes() const override { return 1; }
};

/// The text of a spec is the number of steps that it takes. "endless" uses all steps that it gets
/// and then waits until it is cancelled, "computes" keeps working until then, and "sleeps" waits a
/// little.
class CountingBackend final : public GrammarBackend {
 public:
  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec, WorkLimit& limit) override {
    if (spec.text == "sleeps") {
      std::this_thread::sleep_for(kSleep);
      return std::make_shared<EmptySpec>();
    }
    const bool computes = spec.text.starts_with("computes");
    const bool is_endless = computes || spec.text.starts_with("endless");
    const bool is_first = limit.num_steps_left <= kQuickSteps;
    while (is_endless && !is_first && !limit.is_cancelled->load()) {
      if (!computes) std::this_thread::sleep_for(milliseconds(1));
    }
    if (is_endless || std::stoll(spec.text) > limit.num_steps_left) {
      throw WorkLimitReached(WorkLimitReached::Which::steps);
    }
    return std::make_shared<EmptySpec>();
  }

  static constexpr int64_t kQuickSteps = 100;
  static constexpr milliseconds kSleep{60};
};

GrammarCompilerOptions options(int num_threads, milliseconds time_limit, milliseconds wait_limit) {
  return {.num_threads = num_threads,
          .time_limit = time_limit,
          .wait_limit = wait_limit,
          .quick_steps = CountingBackend::kQuickSteps,
          .max_steps = 1000};
}

OutputSpec spec(const std::string& text) { return {.kind = OutputSpec::Kind::regex, .text = text}; }

std::future<CompileResult> submit_as(const std::string& client,
                                     GrammarCompiler& compiler,
                                     const std::string& text) {
  const auto promise = std::make_shared<std::promise<CompileResult>>();
  compiler.submit(
      spec(text), [promise](const CompileResult& result) { promise->set_value(result); }, client);
  return promise->get_future();
}

std::future<CompileResult> submit(GrammarCompiler& compiler, const std::string& text) {
  return submit_as("client", compiler, text);
}

/// The state that a GatedBackend and its test share.
struct Gated {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::mutex mutex;
  int num_given_up = 0;            // first attempts
  std::vector<std::string> order;  // second attempts

  void wait_until_given_up(int number) {
    wait_until([&] { return num_given_up >= number; });
  }

  void wait_until_one_runs() {
    wait_until([&] { return !order.empty(); });
  }

 private:
  /// Sleeps between two checks: a loop that locks the mutex again at once can keep it for minutes
  /// from the compiler's threads, whose priority is low.
  template <typename Condition>
  void wait_until(const Condition& is_met) {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        if (is_met()) return;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
};

/// Every spec is expensive. Second attempts wait for the gate and use all their steps.
class GatedBackend final : public GrammarBackend {
 public:
  explicit GatedBackend(Gated& gated) : gated_(&gated) {}

  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec, WorkLimit& limit) override {
    const bool is_first = limit.num_steps_left <= CountingBackend::kQuickSteps;
    limit.num_steps_left = is_first ? -1 : 0;
    {
      const std::lock_guard lock(gated_->mutex);
      if (is_first) {
        ++gated_->num_given_up;
        throw WorkLimitReached(WorkLimitReached::Which::steps);
      }
      gated_->order.push_back(spec.text);
    }
    gated_->opened.wait();
    return std::make_shared<EmptySpec>();
  }

 private:
  Gated* gated_;
};

/// First attempts wait for the gate.
class GatedFirstAttempt final : public GrammarBackend {
 public:
  explicit GatedFirstAttempt(std::shared_future<void> opened, std::atomic<int>* num_begun = nullptr)
      : opened_(std::move(opened)), num_begun_(num_begun) {}

  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& /*spec*/,
                                              WorkLimit& /*limit*/) override {
    if (num_begun_ != nullptr) ++*num_begun_;
    opened_.wait();
    return std::make_shared<EmptySpec>();
  }

 private:
  std::shared_future<void> opened_;
  std::atomic<int>* num_begun_;  // of the test; null: not counted
};

const auto kMakeBackend = [] { return std::make_unique<CountingBackend>(); };

TEST(GrammarCompiler, gives_up_a_spec_that_takes_too_many_steps) {
  GrammarCompiler compiler(kMakeBackend, options(2, kForever, kForever));
  for (const char* good : {"1", "100", "101", "1000"}) {
    EXPECT_TRUE(submit(compiler, good).get().compiled) << good;
  }
  const CompileResult result = submit(compiler, "1001").get();
  EXPECT_FALSE(result.compiled);
  EXPECT_FALSE(result.is_busy) << "the spec is at fault";
  EXPECT_NE(result.error.find("1000 steps"), std::string::npos) << result.error;
}

TEST(GrammarCompiler, compiles_quick_specs_while_expensive_ones_run_and_wait) {
  GrammarCompiler compiler(kMakeBackend, options(2, kForever, kForever));
  std::vector<std::future<CompileResult>> endless;
  for (int i = 0; i < 20; ++i) endless.push_back(submit(compiler, "endless" + std::to_string(i)));
  for (int i = 1; i < 20; ++i) EXPECT_TRUE(submit(compiler, std::to_string(i)).get().compiled);
  for (const auto& result : endless) {
    EXPECT_EQ(result.wait_for(milliseconds(0)), std::future_status::timeout);
  }
}

TEST(GrammarCompiler, blames_a_spec_for_its_processor_time) {
  for (const int num_threads : {1, 2}) {
    GrammarCompiler compiler(kMakeBackend, options(num_threads, milliseconds(20), kForever));
    std::vector<std::future<CompileResult>> results;
    for (int i = 0; i < 3; ++i) results.push_back(submit(compiler, "computes" + std::to_string(i)));
    for (auto& each : results) {
      const CompileResult result = each.get();
      EXPECT_FALSE(result.is_busy);
      EXPECT_NE(result.error.find("20 ms of a processor"), std::string::npos) << result.error;
    }
    // No thread is lost.
    EXPECT_TRUE(submit(compiler, "101").get().compiled);
  }
}

TEST(GrammarCompiler, does_not_blame_a_spec_for_the_time_in_which_its_thread_does_not_run) {
  static_assert(CountingBackend::kSleep > 2 * milliseconds(20));
  GrammarCompiler compiler(kMakeBackend, options(2, milliseconds(20), kForever));
  const CompileResult result = submit(compiler, "sleeps").get();
  EXPECT_TRUE(result.compiled) << result.error;
}

TEST(GrammarCompiler, is_busy_when_a_spec_or_those_before_it_get_too_little_of_a_processor) {
  for (const int num_threads : {1, 2}) {
    GrammarCompiler compiler(kMakeBackend, options(num_threads, kForever, milliseconds(100)));
    std::vector<std::future<CompileResult>> endless;
    for (int i = 0; i < 6; ++i) endless.push_back(submit(compiler, "endless" + std::to_string(i)));
    for (auto& each : endless) {
      const CompileResult result = each.get();
      EXPECT_TRUE(result.is_busy);
      EXPECT_TRUE(result.error.starts_with("the server is busy: ")) << result.error;
    }
    // The compiler has lost no thread. On a busy machine this spec may also wait too long.
    CompileResult last = submit(compiler, "101").get();
    while (last.is_busy) last = submit(compiler, "101").get();
    EXPECT_TRUE(last.compiled) << last.error;
  }
}

TEST(GrammarCompiler, serves_the_client_that_had_the_least_first) {
  Gated gated;
  GrammarCompiler compiler([&gated] { return std::make_unique<GatedBackend>(gated); },
                           options(2, kForever, kForever));
  std::vector<std::future<CompileResult>> results;
  for (int i = 0; i < 5; ++i) {
    results.push_back(submit_as("greedy", compiler, "greedy " + std::to_string(i)));
  }
  gated.wait_until_given_up(5);  // one of them runs, four wait
  results.push_back(submit_as("modest", compiler, "modest"));
  results.push_back(submit_as("other", compiler, "greedy 4"));
  results.push_back(submit_as("last", compiler, "last"));
  // One thread runs an expensive spec, so only the other one can abandon "last", and it put
  // "modest" into the queue before.
  gated.wait_until_given_up(7);
  gated.gate.set_value();
  for (auto& result : results) EXPECT_TRUE(result.get().compiled);
  const auto place = [&gated](const std::string& text) {
    return std::find(gated.order.begin(), gated.order.end(), text) - gated.order.begin();
  };
  ASSERT_EQ(gated.order.size(), 7U) << "equal specs are compiled once";
  // One spec of that client has already run, so its other specs come after specs of other clients.
  EXPECT_LE(place("modest"), 3);
  EXPECT_LE(place("greedy 4"), 3);
}

TEST(GrammarCompiler, lets_one_client_fill_only_its_own_part_of_the_queue) {
  Gated gated;
  GrammarCompilerOptions few = options(2, kForever, kForever);
  few.max_waiting = 10;
  few.max_waiting_per_client = 3;
  std::vector<std::future<CompileResult>> results;
  {
    GrammarCompiler compiler([&gated] { return std::make_unique<GatedBackend>(gated); }, few);
    results.push_back(submit_as("greedy", compiler, "running"));
    gated.wait_until_given_up(1);
    gated.wait_until_one_runs();
    for (int i = 0; i < 3; ++i) {
      results.push_back(submit_as("greedy", compiler, "greedy " + std::to_string(i)));
    }
    const CompileResult refused = submit_as("greedy", compiler, "too many").get();
    EXPECT_TRUE(refused.is_busy);
    EXPECT_NE(refused.error.find("this client"), std::string::npos) << refused.error;
    for (int i = 0; i < 7; ++i) {
      const std::string client = "client " + std::to_string(i);
      results.push_back(submit_as(client, compiler, client));
      EXPECT_EQ(results.back().wait_for(milliseconds(0)), std::future_status::timeout);
    }
    const CompileResult full = submit_as("client 8", compiler, "all places are taken").get();
    EXPECT_TRUE(full.is_busy);
    EXPECT_EQ(full.error.find("this client"), std::string::npos) << full.error;
    gated.gate.set_value();
  }
  for (auto& result : results) (void)result.get();
}

TEST(GrammarCompiler, counts_a_first_attempt_that_runs_as_a_spec_that_waits) {
  std::promise<void> gate;
  GrammarCompilerOptions few = options(2, kForever, kForever);
  few.max_waiting_per_client = 1;
  GrammarCompiler compiler(
      [opened = gate.get_future().share()] { return std::make_unique<GatedFirstAttempt>(opened); },
      few);
  std::future<CompileResult> first = submit(compiler, "first");  // runs, or waits for a thread
  std::future<CompileResult> refused = submit(compiler, "second");
  std::this_thread::sleep_for(milliseconds(20));  // most likely until the first one runs
  std::future<CompileResult> refused_later = submit(compiler, "third");
  gate.set_value();
  EXPECT_TRUE(first.get().compiled);
  EXPECT_TRUE(refused.get().is_busy);
  EXPECT_TRUE(refused_later.get().is_busy);
}

TEST(GrammarCompiler, forgets_the_specs_that_were_used_longest_ago) {
  GrammarCompiler compiler([] { return std::make_unique<CountingBackend>(); },
                           options(1, kForever, kForever));
  const std::weak_ptr<const CompiledSpec> first = compiler.compile(spec("1"));
  const std::weak_ptr<const CompiledSpec> second = compiler.compile(spec("2"));
  // The only thread keeps its last result for a moment after the answer. After this call that
  // result is not "2".
  (void)compiler.compile(spec("3"));
  (void)compiler.compile(spec("1"));  // used again
  EXPECT_FALSE(first.expired() || second.expired());
  compiler.shrink_cache(5);  // each entry has one byte, and one byte of its text
  EXPECT_FALSE(first.expired());
  EXPECT_TRUE(second.expired());
  compiler.shrink_cache(0);
  EXPECT_TRUE(first.expired());
}

TEST(GrammarCompiler, is_not_idle_until_a_spec_that_was_given_up_has_ended) {
  std::promise<void> gate;
  std::atomic<int> num_begun = 0;
  GrammarCompiler compiler(
      [&num_begun, opened = gate.get_future().share()] {
        return std::make_unique<GatedFirstAttempt>(opened, &num_begun);
      },
      options(1, kForever, milliseconds(20)));
  EXPECT_TRUE(compiler.is_idle());
  // On a busy machine the first specs may wait too long for the thread.
  while (num_begun == 0) EXPECT_TRUE(submit(compiler, "spec").get().is_busy);
  EXPECT_FALSE(compiler.is_idle()) << "it is answered but not ended";
  gate.set_value();
  while (!compiler.is_idle()) std::this_thread::sleep_for(milliseconds(1));
}

TEST(GrammarCompiler, answers_all_specs_when_it_is_destroyed) {
  std::vector<std::future<CompileResult>> results;
  {
    GrammarCompiler compiler(kMakeBackend, options(2, kForever, kForever));
    for (int i = 0; i < 5; ++i) results.push_back(submit(compiler, "endless" + std::to_string(i)));
  }
  for (auto& result : results) EXPECT_FALSE(result.get().error.empty());
}

}  // namespace
}  // namespace reprise::structured_output
