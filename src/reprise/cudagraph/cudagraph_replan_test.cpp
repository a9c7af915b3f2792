#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/graph_key.h"

// Tests of replan(): a new plan while steps run.
namespace reprise::cudagraph {
namespace {

using enum CudagraphMode;
using Runtime = CudagraphRuntimeMode;
using Sizes = std::vector<int32_t>;

DispatcherOptions plan_of(CudagraphMode mode, Sizes sizes) {
  return {.mode = mode,
          .max_num_seqs = 8,
          .mixed_capture_sizes = sizes,
          .decode_capture_sizes = std::move(sizes)};
}

BatchFacts decodes(int32_t reqs) { return {.num_tokens = reqs, .num_reqs = reqs, .uniform = true}; }

std::set<std::string> keys_with(const CudagraphDispatcher& dispatcher, KeyState state) {
  std::set<std::string> keys;
  for (const KeyStatus& status : dispatcher.key_states()) {
    if (status.state == state) keys.insert(graph_key_text(status.key.mode, status.key.descriptor));
  }
  return keys;
}

TEST(Replan, keeps_captured_keys_of_both_plans_and_returns_the_others) {
  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(plan_of(FULL_AND_PIECEWISE, {2, 4, 8}));
  dispatcher.mark_all_captured();
  const std::vector<PlannedKey> dropped = dispatcher.replan(plan_of(FULL_DECODE_ONLY, {3, 4, 8}));
  std::set<std::string> names;
  for (const PlannedKey& key : dropped) names.insert(graph_key_text(key.mode, key.descriptor));
  EXPECT_EQ(names,
            (std::set<std::string>{"PIECEWISE:tokens=2",
                                   "PIECEWISE:tokens=4",
                                   "PIECEWISE:tokens=8",
                                   "FULL:tokens=2,reqs=2,uniform"}));
  EXPECT_EQ(
      keys_with(dispatcher, KeyState::captured),
      (std::set<std::string>{"FULL:tokens=4,reqs=4,uniform", "FULL:tokens=8,reqs=8,uniform"}));
  EXPECT_EQ(keys_with(dispatcher, KeyState::planned),
            std::set<std::string>{"FULL:tokens=3,reqs=3,uniform"});
  EXPECT_EQ(dispatcher.next_planned()->descriptor.num_tokens, 3);
}

TEST(Replan, never_dispatches_a_key_of_the_old_plan_or_an_uncaptured_one) {
  CudagraphDispatcher dispatcher;
  const std::vector<DispatcherOptions> plans = {plan_of(FULL_AND_PIECEWISE, {2, 4, 8}),
                                                plan_of(FULL, {2, 3, 8}),
                                                plan_of(PIECEWISE, {4, 5}),
                                                plan_of(NONE, {}),
                                                plan_of(FULL_DECODE_ONLY, {1, 2, 3, 4})};
  dispatcher.initialize_cudagraph_keys(plans[0]);
  for (size_t i = 0; i < 40; ++i) {
    (void)dispatcher.replan(plans[i * 7 % plans.size()]);
    for (size_t captures = 0; captures < i % 4 && dispatcher.next_planned(); ++captures) {
      const PlannedKey key = *dispatcher.next_planned();
      dispatcher.mark_captured(key.mode, key.descriptor);
    }
    for (int32_t reqs = 1; reqs <= 8; ++reqs) {
      for (const bool uniform : {false, true}) {
        BatchFacts facts = decodes(reqs);
        facts.uniform = uniform;
        const Decision decision = dispatcher.dispatch(facts);
        if (decision.mode == Runtime::NONE) continue;
        EXPECT_TRUE(dispatcher.is_captured(decision.mode, decision.descriptor)) << i;
      }
    }
  }
}

TEST(Replan, keeps_what_was_taken_out_even_if_a_plan_in_between_has_no_such_key) {
  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(plan_of(FULL_DECODE_ONLY, {2, 4}));
  dispatcher.mark_all_captured();
  const BatchDescriptor key = dispatcher.dispatch(decodes(2)).descriptor;
  ASSERT_TRUE(dispatcher.retire(Runtime::FULL, key, "wrong", Retirement::quarantined));
  EXPECT_TRUE(dispatcher.replan(plan_of(NONE, {})).size() == 1) << "the other key";
  (void)dispatcher.replan(plan_of(PIECEWISE, {2, 4}));
  (void)dispatcher.replan(plan_of(FULL_DECODE_ONLY, {2, 4}));
  EXPECT_EQ(keys_with(dispatcher, KeyState::quarantined),
            std::set<std::string>{"FULL:tokens=2,reqs=2,uniform"});
  EXPECT_EQ(dispatcher.dispatch(decodes(2)).reason, DispatchReason::key_quarantined);
}

TEST(Replan, a_released_key_is_dispatched_only_after_it_was_captured_again) {
  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(plan_of(FULL_DECODE_ONLY, {2}));
  dispatcher.mark_all_captured();
  const BatchDescriptor key = dispatcher.dispatch(decodes(2)).descriptor;
  ASSERT_TRUE(dispatcher.release(Runtime::FULL, key));
  EXPECT_EQ(dispatcher.dispatch(decodes(2)).reason, DispatchReason::key_not_captured);
  dispatcher.mark_captured(Runtime::FULL, key);
  EXPECT_EQ(dispatcher.dispatch(decodes(2)).reason, DispatchReason::full_uniform);
  dispatcher.retire(Runtime::FULL, key, "failed");
  ASSERT_TRUE(dispatcher.release(Runtime::FULL, key));
  EXPECT_EQ(keys_with(dispatcher, KeyState::planned).size(), 1U);
  EXPECT_FALSE(dispatcher.release(Runtime::PIECEWISE, key)) << "no such key";
}

TEST(Replan, changes_nothing_if_the_options_contradict_each_other) {
  CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(plan_of(FULL_AND_PIECEWISE, {2, 4}));
  dispatcher.mark_all_captured();
  const auto before = keys_with(dispatcher, KeyState::captured);
  DispatcherOptions options = plan_of(PIECEWISE, {2});
  options.piecewise_available = false;
  EXPECT_THROW((void)dispatcher.replan(options), InvalidArgument);
  EXPECT_EQ(keys_with(dispatcher, KeyState::captured), before);
  EXPECT_EQ(dispatcher.mode(), FULL_AND_PIECEWISE);
}

}  // namespace
}  // namespace reprise::cudagraph
