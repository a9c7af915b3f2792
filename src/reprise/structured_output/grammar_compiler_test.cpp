#include "reprise/structured_output/grammar_compiler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

using std::chrono::milliseconds;

class EmptySpec final : public CompiledSpec {
 public:
  std::unique_ptr<TokenConstraint> start() const override { return nullptr; }
  size_t memory_bytes() const override { return 1; }
};

/// The text of a spec is the number of steps that it takes; "endless" takes all that it gets and
/// then works on until it is cancelled.
class CountingBackend final : public GrammarBackend {
 public:
  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec, WorkLimit& limit) override {
    const bool is_endless = spec.text.starts_with("endless");
    const bool is_first = limit.num_steps_left <= kQuickSteps;
    if (is_endless && !is_first) {
      while (!limit.is_cancelled->load()) std::this_thread::sleep_for(milliseconds(1));
    }
    if (is_endless || std::stoll(spec.text) > limit.num_steps_left) {
      throw WorkLimitReached(WorkLimitReached::Which::steps);
    }
    return std::make_shared<EmptySpec>();
  }

  static constexpr int64_t kQuickSteps = 100;
};

GrammarCompilerOptions options(int num_threads, milliseconds time_limit) {
  return {.num_threads = num_threads,
          .time_limit = time_limit,
          .quick_steps = CountingBackend::kQuickSteps,
          .max_steps = 1000};
}

OutputSpec spec(const std::string& text) { return {.kind = OutputSpec::Kind::regex, .text = text}; }

std::future<CompileResult> submit(GrammarCompiler& compiler, const std::string& text) {
  const auto promise = std::make_shared<std::promise<CompileResult>>();
  compiler.submit(spec(text),
                  [promise](const CompileResult& result) { promise->set_value(result); });
  return promise->get_future();
}

const auto kMakeBackend = [] { return std::make_unique<CountingBackend>(); };

TEST(GrammarCompiler, gives_up_a_spec_that_takes_too_many_steps) {
  GrammarCompiler compiler(kMakeBackend, options(2, std::chrono::hours(1)));
  for (const char* good : {"1", "100", "101", "1000"}) {
    EXPECT_TRUE(submit(compiler, good).get().compiled) << good;
  }
  const CompileResult result = submit(compiler, "1001").get();
  EXPECT_FALSE(result.compiled);
  EXPECT_FALSE(result.is_busy) << "the spec is at fault";
  EXPECT_NE(result.error.find("1000 steps"), std::string::npos) << result.error;
}

TEST(GrammarCompiler, compiles_quick_specs_while_expensive_ones_run_and_wait) {
  GrammarCompiler compiler(kMakeBackend, options(2, std::chrono::hours(1)));
  std::vector<std::future<CompileResult>> endless;
  for (int i = 0; i < 20; ++i) endless.push_back(submit(compiler, "endless" + std::to_string(i)));
  for (int i = 1; i < 20; ++i) EXPECT_TRUE(submit(compiler, std::to_string(i)).get().compiled);
  for (const auto& result : endless) {
    EXPECT_EQ(result.wait_for(milliseconds(0)), std::future_status::timeout);
  }
}

TEST(GrammarCompiler, tells_the_sender_whether_the_spec_is_at_fault_or_the_server_is_busy) {
  for (const int num_threads : {1, 2}) {
    GrammarCompiler compiler(kMakeBackend, options(num_threads, milliseconds(100)));
    std::vector<std::future<CompileResult>> results;
    for (int i = 0; i < 6; ++i) results.push_back(submit(compiler, "endless" + std::to_string(i)));
    const CompileResult first = results.front().get();
    EXPECT_FALSE(first.is_busy) << first.error;
    EXPECT_NE(first.error.find("100 ms"), std::string::npos) << first.error;
    const CompileResult last = results.back().get();
    EXPECT_TRUE(last.is_busy) << last.error;
    for (size_t i = 1; i + 1 < results.size(); ++i) EXPECT_FALSE(results[i].get().error.empty());
    // No thread is lost.
    EXPECT_TRUE(submit(compiler, "101").get().compiled);
  }
}

TEST(GrammarCompiler, answers_all_specs_when_it_is_destroyed) {
  std::vector<std::future<CompileResult>> results;
  {
    GrammarCompiler compiler(kMakeBackend, options(2, std::chrono::hours(1)));
    for (int i = 0; i < 5; ++i) results.push_back(submit(compiler, "endless" + std::to_string(i)));
  }
  for (auto& result : results) EXPECT_FALSE(result.get().error.empty());
}

}  // namespace
}  // namespace reprise::structured_output
