#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/engine/step_loop.h"
#include "reprise/structured_output/token_constraint.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/source_dir.h"

// Steps are scheduled on another thread while the previous step is computed. The oracle is the same
// load without this: the output of every request must be equal.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using engine::EngineCore;
using engine::RequestId;
using testing::TinyEngine;
using Tokens = std::vector<int32_t>;

// ThreadSanitizer makes a step 40 times slower. Races need threads, so fewer requests suffice.
#ifdef __SANITIZE_THREAD__
constexpr int kLess = 6;
#else
constexpr int kLess = 1;
#endif

enum class Scheduling : uint8_t { sync, async };

std::filesystem::path model_folder() {
  return std::filesystem::path(source_dir()) / "models/reprise-tiny";
}

/// Each token must be of another class than the previous one, and some tokens complete the answer.
/// The class expects calls in order, one per token.
class ClassByClass final : public structured_output::TokenConstraint {
 public:
  ClassByClass(int32_t vocab_size, int length) : vocab_size_(vocab_size), length_(length) {}

  std::span<const uint32_t> allowed_tokens() override {
    mask_.assign(static_cast<size_t>(vocab_size_ + 31) / 32, 0);
    if (is_complete()) return mask_;
    for (int32_t id = num_accepted_ % kNumClasses; id < vocab_size_; id += kNumClasses) {
      mask_[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
    }
    return mask_;
  }
  bool accept(int32_t token_id) override {
    if (token_id % kNumClasses != num_accepted_ % kNumClasses) return false;
    ++num_accepted_;
    return true;
  }
  bool is_complete() override { return num_accepted_ >= length_; }

  static constexpr int32_t kNumClasses = 5;

 private:
  int32_t vocab_size_;
  int length_;
  int32_t num_accepted_ = 0;
  std::vector<uint32_t> mask_;
};

/// The same, with work that does not end before the gate is open.
class ClassByClassBehindGate final : public structured_output::TokenConstraint {
 public:
  ClassByClassBehindGate(int32_t vocab_size, int length, std::shared_future<void> gate)
      : rest_(vocab_size, length), gate_(std::move(gate)) {}

  std::span<const uint32_t> allowed_tokens() override { return rest_.allowed_tokens(); }
  bool accept(int32_t token_id) override {
    gate_.wait();
    return rest_.accept(token_id);
  }
  bool is_complete() override { return rest_.is_complete(); }

 private:
  ClassByClass rest_;
  std::shared_future<void> gate_;
};

struct Spec {
  Tokens prompt;
  sampling::SamplingParams params;
  std::string cache_salt;
  int constraint_length = 0;  // 0: none
  int abort_after = 0;        // tokens until the abort; 0: never
};

/// All output of one request.
struct Answer {
  std::string text;
  Tokens token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  std::string finish_reason;
  engine::StopReason stop_reason;
  std::string error;

  void add(const engine::OutputDelta& delta) {
    text += delta.text;
    token_ids.insert(token_ids.end(), delta.token_ids.begin(), delta.token_ids.end());
    logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (!delta.prompt_logprobs.empty()) prompt_logprobs = delta.prompt_logprobs;
    finish_reason = delta.finish_reason;
    stop_reason = delta.stop_reason;
    error = delta.error;
  }
  friend bool operator==(const Answer&, const Answer&) = default;
};
std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << fmt::format(
             "[{}] {} {}", fmt::join(answer.token_ids, " "), answer.finish_reason, answer.error);
}

class Load {
 public:
  Load(uint32_t seed, int32_t vocab_size) : random_(seed), vocab_size_(vocab_size) {}

  Spec next(int64_t index) {
    Spec spec{.prompt = prompt()};
    sampling::SamplingParams& params = spec.params;
    params.max_tokens = 1 + below(40);
    params.temperature = below(3) == 0 ? 0.0F : 1.0F;
    params.seed = index;  // the engine's seed would depend on the order of arrival
    params.ignore_eos = below(2) == 0;
    if (below(3) == 0) params.min_tokens = below(*params.max_tokens + 1);
    if (below(3) == 0) params.top_k = 1 + below(50);
    if (below(3) == 0) params.top_p = 0.8F;
    if (below(4) == 0) params.repetition_penalty = 1.3F;
    if (below(4) == 0) params.presence_penalty = 0.7F;
    if (below(4) == 0) params.frequency_penalty = -0.7F;
    if (below(4) == 0) params.bad_words_token_ids = {{token(), token()}, {token()}};
    // These tokens are common enough to stop many answers early.
    for (int i = below(3) == 0 ? 40 : 0; i > 0; --i) params.stop_token_ids.push_back(token());
    if (below(3) == 0) params.stop = {"e", "th"};
    if (below(3) == 0) params.logprobs = below(4);
    if (below(5) == 0) params.prompt_logprobs = 2;
    if (below(6) == 0) spec.cache_salt = "salt";
    if (below(5) == 0) spec.constraint_length = 1 + below(12);
    if (below(6) == 0) spec.abort_after = 1 + below(*params.max_tokens);
    return spec;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }
  int32_t token() { return below(vocab_size_); }

  /// One of a few beginnings that requests share, and an end of its own.
  Tokens prompt() {
    Tokens tokens;
    const int32_t stem = below(4);
    for (int i = below(80); i > 0; --i)
      tokens.push_back(100 + (stem * 31 + static_cast<int>(tokens.size()) * 7) % 300);
    for (int i = 1 + below(20); i > 0; --i) tokens.push_back(token());
    return tokens;
  }

  std::mt19937 random_;
  int32_t vocab_size_;
};

class Machine {
 public:
  explicit Machine(CudagraphMode mode, int64_t num_blocks = 24)
      : tiny_({.mode = mode,
               .max_num_tokens = 48,
               .max_num_reqs = 6,
               .num_blocks = num_blocks,
               .model = model_folder()}),
        tokenizer_(tokenizer::Tokenizer::load(model_folder())) {
    (void)tiny_.runner().capture({});
  }

  [[nodiscard]] int32_t vocab_size() const {
    return static_cast<int32_t>(tiny_.config().vocab_size);
  }

  [[nodiscard]] std::unique_ptr<EngineCore> make_core(
      Scheduling scheduling,
      std::chrono::nanoseconds constraint_time_per_step = std::chrono::hours(1)) {
    return std::make_unique<EngineCore>(
        tiny_.runner(),
        engine::EngineCoreOptions{
            .scheduler = {.max_num_seqs = 6,
                          .max_num_batched_tokens = 48,
                          .max_model_len = 160,
                          // A request starts when its first chunk fits.
                          .scheduler_reserve_full_isl = false,
                          .max_prompt_logits = 16,
                          .async_scheduling = scheduling == Scheduling::async,
                          .constraint_time_per_step = constraint_time_per_step,
                          .eos_token_ids = {1, 2},
                          .vocab_size = vocab_size()}});
  }

  /// Submits ten requests at once, and the others as these end.
  [[nodiscard]] std::vector<Answer> answer(EngineCore& core, const std::vector<Spec>& specs) {
    std::vector<Answer> answers(specs.size());
    engine::StepLoop loop(core, tokenizer_);
    std::map<RequestId, size_t> live;
    std::vector<RequestId> to_abort;
    const auto take = [&](engine::OutputDelta&& delta) {
      const auto found = live.find(delta.id);
      Answer& answer = answers[found->second];
      answer.add(delta);
      if (delta.finished) {
        live.erase(found);
      } else if (std::cmp_equal(answer.token_ids.size(), specs[found->second].abort_after)) {
        to_abort.push_back(delta.id);
      }
    };
    for (size_t next = 0; next < specs.size() || core.has_unfinished_requests();) {
      for (; next < specs.size() && live.size() < 10; ++next)
        live.emplace(add(core, loop, specs[next]), next);
      loop.step(take);
      for (const RequestId id : std::exchange(to_abort, {})) {
        auto last = loop.abort_request(id);
        EXPECT_TRUE(last && last->finished);
        EXPECT_FALSE(loop.abort_request(id)) << "aborted twice";
        if (last) take(std::move(*last));
      }
    }
    EXPECT_TRUE(live.empty());
    const kv_cache::KvCacheManager& cache = core.kv_cache_manager();
    EXPECT_EQ(cache.num_free_blocks(), cache.num_blocks() - 1) << "leaked blocks";
    EXPECT_EQ(cache.find_broken_invariant({}), "");
    return answers;
  }

 private:
  RequestId add(EngineCore& core, engine::StepLoop& loop, const Spec& spec) const {
    engine::RequestOptions options{.cache_salt = spec.cache_salt};
    if (spec.constraint_length > 0) {
      options.constraint = std::make_shared<ClassByClass>(vocab_size(), spec.constraint_length);
    }
    const RequestId id = core.new_request_id();
    loop.add_request(id, spec.prompt, spec.params, std::move(options));
    return id;
  }

  TinyEngine tiny_;
  tokenizer::Tokenizer tokenizer_;
};

class AsyncScheduling : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(AsyncScheduling, changes_nothing_that_any_request_is_told) {
  Machine machine(GetParam());
  Load load(/*seed=*/5, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 240 / kLess; ++i) specs.push_back(load.next(i));
  const auto sync = machine.make_core(Scheduling::sync);
  const auto async = machine.make_core(Scheduling::async);
  const std::vector<Answer> expected = machine.answer(*sync, specs);
  const std::vector<Answer> answers = machine.answer(*async, specs);
  std::map<std::string, int> reasons;
  for (size_t i = 0; i < specs.size(); ++i) {
    ASSERT_EQ(answers[i], expected[i]) << "request " << i;
    ++reasons[expected[i].finish_reason];
  }
  EXPECT_EQ(async->counters().generation_tokens, sync->counters().generation_tokens);
  EXPECT_EQ(sync->counters().dropped_tokens, 0U);
  // Checks that the load really drops tokens.
  EXPECT_GT(async->counters().dropped_tokens, 0U);
  EXPECT_GT(async->scheduler().num_preemptions(), 0);
  EXPECT_GT(async->scheduler().prefix_cache_stats().hits, 0U);
  for (const char* reason : {"stop", "length", "abort"}) EXPECT_GT(reasons[reason], 0) << reason;
  EXPECT_EQ(reasons["error"], 0);
  fmt::print("{} tokens, {} dropped, {} preemptions; {} steps, {} without\n",
             async->counters().generation_tokens,
             async->counters().dropped_tokens,
             async->scheduler().num_preemptions(),
             async->counters().num_steps,
             sync->counters().num_steps);
}

TEST_P(AsyncScheduling, changes_nothing_when_answers_wait_for_the_turn_of_their_constraint) {
  Machine machine(GetParam());
  Load load(/*seed=*/6, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 180 / kLess; ++i) {
    specs.push_back(load.next(i));
    if (i % 3 != 0 && specs.back().constraint_length == 0) specs.back().constraint_length = 9;
  }
  const auto unhurried = machine.make_core(Scheduling::sync);
  const std::vector<Answer> expected = machine.answer(*unhurried, specs);
  EXPECT_EQ(unhurried->counters().postponed_tokens, 0U);
  for (const Scheduling scheduling : {Scheduling::sync, Scheduling::async}) {
    // Without any time, one constraint has its turn in each step.
    const auto core = machine.make_core(scheduling, std::chrono::nanoseconds(0));
    const std::vector<Answer> answers = machine.answer(*core, specs);
    for (size_t i = 0; i < specs.size(); ++i) ASSERT_EQ(answers[i], expected[i]) << "request " << i;
    EXPECT_GT(core->counters().postponed_tokens, 100U / kLess);
    EXPECT_EQ(core->counters().generation_tokens, unhurried->counters().generation_tokens);
    if (scheduling == Scheduling::sync) {
      EXPECT_EQ(core->counters().dropped_tokens, 0U);
    }
  }
}

/// What steps have told about each request.
struct Told {
  std::map<RequestId, Tokens> tokens;
  std::map<RequestId, bool> has_ended;

  void run_until_end_of(EngineCore& core, RequestId id) {
    while (!has_ended[id]) {
      for (const EngineCore::Update& update : core.step()) {
        if (update.new_token_id) tokens[update.request->id()].push_back(*update.new_token_id);
        has_ended[update.request->id()] = update.finished;
      }
    }
  }
};

TEST_P(AsyncScheduling, delays_no_other_request_while_the_work_of_a_constraint_does_not_end) {
  Machine machine(GetParam(), /*num_blocks=*/80);
  const sampling::SamplingParams params{.seed = 3, .max_tokens = 40, .ignore_eos = true};
  const auto add = [&](EngineCore& core,
                       int32_t first,
                       std::shared_ptr<structured_output::TokenConstraint> constraint) {
    return core.add_request(Tokens(5, first), params, {.constraint = std::move(constraint)});
  };
  const auto make_quick = [&] { return std::make_shared<ClassByClass>(machine.vocab_size(), 12); };
  const auto alone = [&](int32_t first,
                         std::shared_ptr<structured_output::TokenConstraint> constraint) {
    const auto core = machine.make_core(Scheduling::sync);
    Told told;
    const RequestId id = add(*core, first, std::move(constraint));
    told.run_until_end_of(*core, id);
    return told.tokens[id];
  };
  const Tokens free_tokens = alone(100, nullptr);
  const Tokens quick_tokens = alone(101, make_quick());
  const Tokens slow_tokens = alone(102, make_quick());
  for (const Scheduling scheduling : {Scheduling::sync, Scheduling::async}) {
    std::promise<void> gate;
    const auto core = machine.make_core(scheduling, std::chrono::milliseconds(2));
    const RequestId slow = add(*core,
                               102,
                               std::make_shared<ClassByClassBehindGate>(
                                   machine.vocab_size(), 12, gate.get_future().share()));
    const RequestId quick = add(*core, 101, make_quick());
    const RequestId free = add(*core, 100, nullptr);
    Told told;
    told.run_until_end_of(*core, free);
    EXPECT_EQ(told.tokens[free], free_tokens);
    EXPECT_EQ(core->counters().num_steps, 40U) << "not every step gave the request a token";
    told.run_until_end_of(*core, quick);
    EXPECT_EQ(told.tokens[quick], quick_tokens);
    EXPECT_TRUE(told.tokens[slow].empty()) << "no token is given out before it is accepted";
    EXPECT_GT(core->counters().postponed_tokens, 0U);
    gate.set_value();
    told.run_until_end_of(*core, slow);
    EXPECT_EQ(told.tokens[slow], slow_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(modes,
                         AsyncScheduling,
                         ::testing::Values(CudagraphMode::NONE, CudagraphMode::FULL_AND_PIECEWISE),
                         [](const auto& param_info) {
                           return std::string(to_string(param_info.param));
                         });

using StepShape = std::tuple<cudagraph::CudagraphRuntimeMode,
                             cudagraph::BatchDescriptor,
                             cudagraph::DispatchReason,
                             int,
                             int>;

std::vector<StepShape> step_shapes(EngineCore& core) {
  for (int i = 0; i < 6; ++i) {
    (void)core.add_request(Tokens(static_cast<size_t>(5 + 9 * i), 100 + i),
                           {.temperature = 0, .max_tokens = 3 + 5 * i, .ignore_eos = true});
  }
  std::vector<StepShape> shapes;
  while (core.has_unfinished_requests()) {
    (void)core.step();
    const engine::ModelStep& step = core.last_step();
    shapes.emplace_back(step.decision.mode,
                        step.decision.descriptor,
                        step.decision.reason,
                        step.facts.num_tokens,
                        step.facts.num_reqs);
  }
  return shapes;
}

TEST(AsyncSchedulingSteps, are_the_same_where_all_lengths_are_known_and_replay_the_same_graphs) {
  Machine machine(CudagraphMode::FULL_AND_PIECEWISE, /*num_blocks=*/80);
  const std::vector<StepShape> expected = step_shapes(*machine.make_core(Scheduling::sync));
  const auto core = machine.make_core(Scheduling::async);
  EXPECT_EQ(step_shapes(*core), expected);
  EXPECT_GT(expected.size(), 20U);
  EXPECT_EQ(core->counters().dropped_tokens, 0U);
  EXPECT_GT(core->ledger().steps(cudagraph::CudagraphRuntimeMode::FULL), 0U);
}

TEST(AsyncSchedulingSteps, that_nobody_waits_for_any_more_do_not_keep_the_cache_from_being_reset) {
  Machine machine(CudagraphMode::NONE);
  const auto core = machine.make_core(Scheduling::async);
  const RequestId id =
      core->add_request(Tokens(20, 100), {.temperature = 0, .max_tokens = 30, .ignore_eos = true});
  ASSERT_EQ(core->step().size(), 1U);
  EXPECT_FALSE(core->reset_prefix_cache()) << "a request runs";
  ASSERT_TRUE(core->abort_request(id));
  EXPECT_TRUE(core->has_unfinished_requests()) << "a step is in flight";
  EXPECT_LT(core->kv_cache_manager().num_free_blocks(), 23);
  EXPECT_TRUE(core->reset_prefix_cache());
  EXPECT_FALSE(core->has_unfinished_requests());
  EXPECT_EQ(core->kv_cache_manager().num_free_blocks(), 23);
  EXPECT_TRUE(core->step().empty());
}

TEST(AsyncSchedulingSteps, may_be_under_way_when_the_engine_is_destroyed) {
  Machine machine(CudagraphMode::NONE);
  for (int num_steps = 0; num_steps < 4; ++num_steps) {
    const auto core = machine.make_core(Scheduling::async);
    for (int i = 0; i < 8; ++i) (void)core->add_request(Tokens(20, 100 + i), {.max_tokens = 30});
    for (int i = 0; i < num_steps; ++i) (void)core->step();
  }
}

}  // namespace
}  // namespace reprise
