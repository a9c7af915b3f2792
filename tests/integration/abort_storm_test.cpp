#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "tests/integration/tiny_engine.h"

// Requests with shared prefixes arrive and are aborted at random points, in a cache so small that
// they preempt each other. No block may be lost, and each finished request must give the same
// answer as alone. The suite runs a small storm; --gtest_also_run_disabled_tests runs the full one.
namespace reprise {
namespace {

using engine::EngineCore;
using engine::EngineCoreOptions;
using scheduler::RequestId;
using testing::TinyEngine;
using Tokens = std::vector<int32_t>;

constexpr int kStormVocabSize = 97;  // of the tiny model
constexpr int kStems = 8;
constexpr size_t kStemTokens = 80;

struct StormSpec {
  Tokens prompt;
  sampling::SamplingParams params;
  scheduler::RequestOptions options;
};

/// Three of four requests begin with a part of a stem that other requests share.
StormSpec make_spec(std::mt19937& random, int64_t index) {
  StormSpec spec;
  const auto stem = static_cast<int32_t>(random() % kStems);
  const size_t num_shared = random() % 4 == 0 ? 0 : random() % (kStemTokens + 1);
  for (size_t i = 0; i < num_shared; ++i) {
    spec.prompt.push_back((static_cast<int32_t>(i) * 13 + stem * 7) % kStormVocabSize);
  }
  for (size_t i = random() % 30 + 1; i > 0; --i) {
    spec.prompt.push_back(static_cast<int32_t>(random() % kStormVocabSize));
  }
  // Each request has its own seed, because the engine's seed would depend on the order of arrival.
  spec.params = {.temperature = random() % 2 == 0 ? 0.0F : 1.0F,
                 .seed = index,
                 .max_tokens = static_cast<int>(1 + random() % 60)};
  if (random() % 8 == 0) spec.options.cache_salt = "salt";
  return spec;
}

enum class Scheduling : uint8_t { sync, async };

EngineCoreOptions core_options(const TinyEngine& engine,
                               bool enable_prefix_caching,
                               Scheduling scheduling = Scheduling::sync) {
  return {.scheduler = {.max_num_seqs = 16,
                        .max_num_batched_tokens = 64,
                        .max_model_len = 256,
                        // A request may start as soon as its first chunk fits, which causes more
                        // preemption.
                        .scheduler_reserve_full_isl = false,
                        .async_scheduling = scheduling == Scheduling::async,
                        .eos_token_ids = {5},
                        .vocab_size = static_cast<int>(engine.config().vocab_size)},
          .enable_prefix_caching = enable_prefix_caching};
}

class Storm {
 public:
  Storm(TinyEngine& engine, size_t num_requests, uint32_t seed, Scheduling scheduling)
      : engine_(&engine),
        num_requests_(num_requests),
        random_(seed),
        core_(engine.runner(), core_options(engine, true, scheduling)) {}

  void run() {
    while (specs_.size() < num_requests_ || core_.has_unfinished_requests()) {
      // Alternates bursts and pauses, with at most a few dozen requests at a time.
      const size_t most = num_steps_ / 50 % 2 == 0 ? 40 : 4;
      while (specs_.size() < num_requests_ && live_.size() < most && random_() % 3 != 0) arrive();
      // Aborts about one of five requests, before and after steps, waiting or running.
      if (random_() % 64 < 5) abort_one();
      step();
      if (random_() % 64 < 5) abort_one();
    }
    EXPECT_TRUE(live_.empty());
    const kv_cache::KvCacheManager& cache = core_.kv_cache_manager();
    EXPECT_EQ(cache.num_free_blocks(), cache.num_blocks() - 1) << "leaked blocks";
    EXPECT_EQ(cache.find_broken_invariant({}), "");
  }

  /// Runs each finished request again, alone, with an empty cache.
  void compare_with_solo_runs() {
    EngineCore core(engine_->runner(), core_options(*engine_, false));
    for (const auto& [index, tokens] : answers_) {
      const StormSpec& spec = specs_[index];
      Tokens solo;
      (void)core.add_request(spec.prompt, spec.params);
      while (core.has_unfinished_requests()) {
        for (const EngineCore::Update& update : core.step()) solo.push_back(*update.new_token_id);
      }
      ASSERT_EQ(tokens, solo) << "request " << index;
    }
  }

  [[nodiscard]] size_t num_finished() const { return answers_.size(); }
  [[nodiscard]] size_t num_aborted() const { return num_aborted_; }
  [[nodiscard]] size_t num_preempted() const { return num_preempted_; }
  [[nodiscard]] std::string report() const {
    const scheduler::PrefixCacheStats& prefix = core_.scheduler().prefix_cache_stats();
    return fmt::format(
        "{} requests, {} finished, {} aborted, {} steps; {} preemptions of {} requests; {} of {} "
        "prompt tokens cached",
        specs_.size(),
        answers_.size(),
        num_aborted_,
        num_steps_,
        core_.scheduler().num_preemptions(),
        num_preempted_,
        prefix.hits,
        prefix.queries);
  }

 private:
  struct Live {
    size_t index = 0;
    Tokens tokens;
    bool was_preempted = false;
  };

  void arrive() {
    StormSpec spec = make_spec(random_, static_cast<int64_t>(specs_.size()));
    const RequestId id = core_.add_request(spec.prompt, spec.params, spec.options);
    live_[id].index = specs_.size();
    specs_.push_back(std::move(spec));
  }

  void abort_one() {
    if (live_.empty()) return;
    auto victim = live_.begin();
    std::advance(victim, static_cast<std::ptrdiff_t>(random_() % live_.size()));
    const auto update = core_.abort_request(victim->first);
    ASSERT_TRUE(update && update->finished);
    ++num_aborted_;
    live_.erase(victim);
    if (random_() % 4 == 0) {
      EXPECT_FALSE(core_.abort_request(update->request->id())) << "aborted twice";
    }
  }

  void step() {
    ++num_steps_;
    for (const EngineCore::Update& update : core_.step()) {
      Live& live = live_.at(update.request->id());
      if (update.new_token_id) live.tokens.push_back(*update.new_token_id);
      if (!update.finished) continue;
      EXPECT_NE(update.request->finish_reason(), "error") << update.request->error();
      if (update.request->num_preemptions() > 0) ++num_preempted_;
      answers_.emplace_back(live.index, std::move(live.tokens));
      live_.erase(update.request->id());
    }
  }

  TinyEngine* engine_;
  size_t num_requests_;
  std::mt19937 random_;
  EngineCore core_;
  std::vector<StormSpec> specs_;
  std::map<RequestId, Live> live_;
  std::vector<std::pair<size_t, Tokens>> answers_;
  size_t num_steps_ = 0;
  size_t num_aborted_ = 0;
  size_t num_preempted_ = 0;  // of the finished requests
};

void run_storm(size_t num_requests, Scheduling scheduling) {
  TinyEngine engine({.max_num_tokens = 64, .max_num_reqs = 16, .num_blocks = 48});
  engine.runner().capture({});
  Storm storm(engine, num_requests, /*seed=*/1, scheduling);
  storm.run();
  storm.compare_with_solo_runs();
  fmt::print("{}\n", storm.report());
  // Checks the load itself: about a fifth is aborted, and more than a tenth of the rest is
  // preempted.
  EXPECT_GE(storm.num_aborted(), num_requests / 6);
  EXPECT_GT(storm.num_preempted(), storm.num_finished() / 10);
}

class AbortStorm : public ::testing::TestWithParam<Scheduling> {};

TEST_P(AbortStorm, loses_no_block_and_changes_no_token) { run_storm(250, GetParam()); }
TEST_P(AbortStorm, of_five_thousand_requests) { run_storm(5000, GetParam()); }

INSTANTIATE_TEST_SUITE_P(scheduling,
                         AbortStorm,
                         ::testing::Values(Scheduling::sync, Scheduling::async),
                         [](const auto& param_info) {
                           return param_info.param == Scheduling::sync ? "sync" : "async";
                         });

}  // namespace
}  // namespace reprise
