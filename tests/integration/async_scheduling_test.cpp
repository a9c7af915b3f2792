#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/engine/engine_core.h"
#include "reprise/structured_output/token_constraint.h"
#include "tests/integration/random_load.h"

// Steps are scheduled on another thread while the previous step is computed. The expected result is
// that of the same load without this: the output of every request must be equal.
namespace reprise {
namespace {

using cudagraph::CudagraphMode;
using engine::EngineCore;
using scheduler::RequestId;
using testing::Answer;
using testing::ClassByClass;
using testing::Load;
using testing::Machine;
using testing::Spec;
using testing::Tokens;

// ThreadSanitizer makes a step 40 times slower. Races need threads, so fewer requests suffice.
#ifdef __SANITIZE_THREAD__
constexpr int kFewerSpecs = 6;
#else
constexpr int kFewerSpecs = 1;
#endif

enum class Scheduling : uint8_t { sync, async };

/// ClassByClass whose work does not end before the gate is open.
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

std::unique_ptr<EngineCore> make_core(
    Machine& machine,
    Scheduling scheduling,
    std::chrono::nanoseconds constraint_time_per_step = std::chrono::hours(1)) {
  engine::EngineCoreOptions options = machine.core_options();
  options.scheduler.async_scheduling = scheduling == Scheduling::async;
  options.scheduler.constraint_time_per_step = constraint_time_per_step;
  return machine.make_core(options);
}

class AsyncScheduling : public ::testing::TestWithParam<CudagraphMode> {};

TEST_P(AsyncScheduling, changes_nothing_that_any_request_is_told) {
  Machine machine({.mode = GetParam()});
  Load load(/*seed=*/5, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 240 / kFewerSpecs; ++i) specs.push_back(load.next(i));
  const auto sync = make_core(machine, Scheduling::sync);
  const auto async = make_core(machine, Scheduling::async);
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
  Machine machine({.mode = GetParam()});
  Load load(/*seed=*/6, machine.vocab_size());
  std::vector<Spec> specs;
  for (int i = 0; i < 180 / kFewerSpecs; ++i) {
    specs.push_back(load.next(i));
    if (i % 3 != 0 && specs.back().constraint_length == 0) specs.back().constraint_length = 9;
  }
  const auto unhurried = make_core(machine, Scheduling::sync);
  const std::vector<Answer> expected = machine.answer(*unhurried, specs);
  EXPECT_EQ(unhurried->counters().postponed_tokens, 0U);
  for (const Scheduling scheduling : {Scheduling::sync, Scheduling::async}) {
    // Without waiting time, each step serves at most one constraint.
    const auto core = make_core(machine, scheduling, std::chrono::nanoseconds(0));
    const std::vector<Answer> answers = machine.answer(*core, specs);
    for (size_t i = 0; i < specs.size(); ++i) ASSERT_EQ(answers[i], expected[i]) << "request " << i;
    EXPECT_GT(core->counters().postponed_tokens, 100U / kFewerSpecs);
    EXPECT_EQ(core->counters().generation_tokens, unhurried->counters().generation_tokens);
    if (scheduling == Scheduling::sync) {
      EXPECT_EQ(core->counters().dropped_tokens, 0U);
    }
  }
}

/// The outputs of the steps for each request.
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
  Machine machine({.mode = GetParam(), .num_blocks = 80});
  const sampling::SamplingParams params{.seed = 3, .max_tokens = 40, .ignore_eos = true};
  const auto add = [&](EngineCore& core,
                       int32_t first,
                       std::shared_ptr<structured_output::TokenConstraint> constraint) {
    return core.add_request(Tokens(5, first), params, {.constraint = std::move(constraint)});
  };
  const auto make_quick = [&] { return std::make_shared<ClassByClass>(machine.vocab_size(), 12); };
  const auto alone = [&](int32_t first,
                         std::shared_ptr<structured_output::TokenConstraint> constraint) {
    const auto core = make_core(machine, Scheduling::sync);
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
    const auto core = make_core(machine, scheduling, std::chrono::milliseconds(2));
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

TEST_P(AsyncScheduling, ends_a_step_that_waits_for_constraints_alone_when_a_request_arrives) {
  Machine machine({.mode = GetParam(), .num_blocks = 80});
  std::promise<void> gate;
  const auto core = make_core(machine, Scheduling::sync, std::chrono::hours(1));
  core->add_request(Tokens(5, 102),
                    {.max_tokens = 4},
                    {.constraint = std::make_shared<ClassByClassBehindGate>(
                         machine.vocab_size(), 12, gate.get_future().share())});
  std::future<void> step = std::async(std::launch::async, [&] { (void)core->step(); });
  // A request that arrives before the step begins does not end the wait, so requests keep arriving.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  bool has_ended = false;
  while (!has_ended && std::chrono::steady_clock::now() < end) {
    (void)core->new_request_id();
    has_ended = step.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
  }
  EXPECT_TRUE(has_ended);
  gate.set_value();
  step.get();
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
    const runner::ModelStep& step = core.last_step();
    shapes.emplace_back(step.decision.mode,
                        step.decision.descriptor,
                        step.decision.reason,
                        step.facts.num_tokens,
                        step.facts.num_reqs);
  }
  return shapes;
}

TEST(AsyncSchedulingSteps, are_the_same_where_all_lengths_are_known_and_replay_the_same_graphs) {
  Machine machine({.mode = CudagraphMode::FULL_AND_PIECEWISE, .num_blocks = 80});
  const std::vector<StepShape> expected = step_shapes(*make_core(machine, Scheduling::sync));
  const auto core = make_core(machine, Scheduling::async);
  EXPECT_EQ(step_shapes(*core), expected);
  EXPECT_GT(expected.size(), 20U);
  EXPECT_EQ(core->counters().dropped_tokens, 0U);
  EXPECT_GT(core->ledger().steps(cudagraph::CudagraphRuntimeMode::FULL), 0U);
}

TEST(AsyncSchedulingSteps, that_nobody_waits_for_any_more_do_not_keep_the_cache_from_being_reset) {
  Machine machine({.mode = CudagraphMode::NONE});
  const auto core = make_core(machine, Scheduling::async);
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
  Machine machine({.mode = CudagraphMode::NONE});
  for (int num_steps = 0; num_steps < 4; ++num_steps) {
    const auto core = make_core(machine, Scheduling::async);
    for (int i = 0; i < 8; ++i) (void)core->add_request(Tokens(20, 100 + i), {.max_tokens = 30});
    for (int i = 0; i < num_steps; ++i) (void)core->step();
  }
}

}  // namespace
}  // namespace reprise
