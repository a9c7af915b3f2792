// Tests of a second step that is scheduled while the first has no results yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scheduler/scheduler_test_support.h"

namespace reprise::scheduler {
namespace {

using testing::Bench;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kEos;
using testing::kPlain;

SchedulerConfig async_config() {
  SchedulerConfig config = testing::small_config();
  config.async_scheduling = true;
  return config;
}

TEST(AsyncScheduler, schedules_a_decode_behind_a_token_that_is_not_known_yet) {
  Bench bench(async_config());
  Request& request = bench.add(5);
  const SchedulerOutput& first = bench.scheduler.schedule();
  const SchedulerOutput& second = bench.scheduler.schedule();
  EXPECT_FALSE(bench.scheduler.can_schedule());
  ASSERT_EQ(second.num_reqs(), 1);
  EXPECT_TRUE(first.scheduled[0].is_in_prefill);
  EXPECT_FALSE(second.scheduled[0].is_in_prefill);
  EXPECT_EQ(second.scheduled[0].num_computed_tokens, 5);
  // The second step computes the token that the first step samples, through the shared placeholder.
  EXPECT_EQ(second.scheduled[0].token_ids.data(), first.scheduled[0].placeholders.data());
  EXPECT_THAT(second.scheduled[0].token_ids, ElementsAre(0));
  first.scheduled[0].placeholders[0] = 9;
  EXPECT_THAT(second.scheduled[0].token_ids, ElementsAre(9));
  EXPECT_EQ(second.scheduled[0].sampling_input({}).output_token_ids.size(), 1U);
  EXPECT_EQ(request.num_tokens(), 5) << "nothing is known yet";

  EXPECT_EQ(bench.update(first, 9)[0].new_token_id, 9);
  EXPECT_THAT(request.output_token_ids(), ElementsAre(9));
  EXPECT_EQ(bench.update(second, 11)[0].new_token_id, 11);
  EXPECT_THAT(request.output_token_ids(), ElementsAre(9, 11));
}

TEST(AsyncScheduler, schedules_nothing_behind_the_last_token_there_can_be) {
  Bench bench(async_config());
  Request& request = bench.add(5, {.max_tokens = 1});
  const SchedulerOutput& only = bench.scheduler.schedule();
  EXPECT_TRUE(bench.scheduler.schedule().empty());
  EXPECT_TRUE(bench.update(only)[0].finished);
  EXPECT_EQ(request.finish_reason(), "length");
  EXPECT_FALSE(bench.scheduler.has_unfinished_requests());
}

TEST(AsyncScheduler, drops_what_was_computed_after_the_end_and_frees_the_blocks_only_then) {
  Bench bench(async_config());
  Request& request = bench.add(16);
  const SchedulerOutput& first = bench.scheduler.schedule();
  const SchedulerOutput& second = bench.scheduler.schedule();
  const auto updates = bench.update(first, kEos);
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_TRUE(updates[0].finished);
  EXPECT_EQ(request.finish_reason(), "stop");
  EXPECT_EQ(request.block_ids().size(), 2U) << "the second step writes there";
  EXPECT_EQ(bench.cache.num_free_blocks(), 98);
  EXPECT_EQ(bench.scheduler.num_running(), 0U);
  EXPECT_TRUE(bench.scheduler.has_unfinished_requests()) << "a step is in flight";
  EXPECT_THAT(bench.scheduler.schedule().finished_request_ids, IsEmpty());

  EXPECT_TRUE(bench.update(second).empty());
  EXPECT_THAT(request.output_token_ids(), ElementsAre(kEos));
  EXPECT_EQ(bench.cache.num_free_blocks(), 100);
  EXPECT_FALSE(bench.scheduler.has_unfinished_requests());
  EXPECT_THAT(bench.scheduler.schedule().finished_request_ids, ElementsAre(request.id()));
}

TEST(AsyncScheduler, keeps_an_aborted_request_through_both_steps_that_have_it) {
  Bench bench(async_config());
  Request& request = bench.add(5);
  const SchedulerOutput& first = bench.scheduler.schedule();
  const SchedulerOutput& second = bench.scheduler.schedule();
  EXPECT_EQ(bench.scheduler.abort_request(request), AbortResult::released_after_step);
  EXPECT_EQ(bench.scheduler.num_running(), 0U);
  EXPECT_TRUE(bench.update(first).empty());
  EXPECT_FALSE(request.block_ids().empty());
  EXPECT_EQ(bench.scheduler.abort_request(request), AbortResult::released_after_step);
  EXPECT_TRUE(bench.update(second).empty());
  EXPECT_TRUE(request.block_ids().empty());
  EXPECT_EQ(bench.scheduler.abort_request(request), AbortResult::already_finished);
  EXPECT_EQ(request.num_output_tokens(), 0);
}

TEST(AsyncScheduler, drops_the_step_behind_a_token_that_was_postponed) {
  Bench bench(async_config());
  Request& request = bench.add(5);
  const std::vector<sampling::SampledToken> none = {
      {.status = sampling::SamplingStatus::postponed}};
  (void)bench.scheduler.schedule();
  (void)bench.scheduler.schedule();
  EXPECT_TRUE(bench.scheduler.update_from_output(none).empty());
  EXPECT_TRUE(bench.scheduler.schedule().empty()) << "the second step still has the request";
  EXPECT_TRUE(bench.scheduler.update_from_output(none).empty());
  const SchedulerOutput& again = bench.scheduler.schedule();
  ASSERT_EQ(again.num_reqs(), 1);
  EXPECT_EQ(again.scheduled[0].num_computed_tokens, 4);
  EXPECT_EQ(again.scheduled[0].num_tokens(), 1);
  EXPECT_TRUE(bench.scheduler.schedule().empty()) << "nothing runs ahead until there is a token";
  EXPECT_EQ(bench.update(again, 9)[0].new_token_id, 9);
  EXPECT_THAT(request.output_token_ids(), ElementsAre(9));
  EXPECT_EQ(bench.scheduler.schedule().num_reqs(), 1);
  EXPECT_EQ(bench.scheduler.schedule().num_reqs(), 1) << "the next step runs ahead again";
}

TEST(AsyncScheduler, preempts_nobody_who_is_in_a_step_under_way) {
  // Each request fills one block, and there is no third block: the first request that needs a
  // second block could only take the block of the other request.
  Bench bench(async_config(), /*num_blocks=*/3);
  Request& first = bench.add(16);
  Request& second = bench.add(16);
  const SchedulerOutput& prefills = bench.scheduler.schedule();
  ASSERT_EQ(prefills.num_reqs(), 2);
  EXPECT_TRUE(bench.scheduler.schedule().empty()) << "both are in the step in flight";
  EXPECT_EQ(second.status(), RequestStatus::running);
  bench.update(prefills);
  const SchedulerOutput& next = bench.scheduler.schedule();
  EXPECT_THAT(testing::scheduled_ids(next), ElementsAre(0));
  EXPECT_EQ(second.status(), RequestStatus::preempted);
  EXPECT_EQ(second.num_prefill_tokens(), 17);
  EXPECT_EQ(first.block_ids().size(), 2U);
}

TEST(AsyncScheduler, waits_for_blocks_that_an_ended_request_still_has) {
  Bench bench(async_config(), /*num_blocks=*/3);
  Request& first = bench.add(15);
  Request& second = bench.add(15);
  bench.update(bench.scheduler.schedule());
  const SchedulerOutput& under_way = bench.scheduler.schedule();
  EXPECT_EQ(bench.scheduler.abort_request(first), AbortResult::released_after_step);
  // The second request needs a block. It is the only running request, so no block becomes free
  // before the step is over.
  EXPECT_TRUE(bench.scheduler.schedule().empty());
  EXPECT_EQ(second.status(), RequestStatus::running);
  bench.update(under_way);
  EXPECT_THAT(testing::scheduled_ids(bench.scheduler.schedule()), ElementsAre(1));
}

TEST(AsyncScheduler, ends_the_requests_of_a_failed_step_once_and_lets_the_one_behind_finish) {
  SchedulerConfig config = async_config();
  config.max_num_batched_tokens = 16;
  Bench bench(config);
  Request& failed = bench.add(16);
  Request& other = bench.add(15);
  (void)bench.scheduler.schedule();  // only the first request fits
  const SchedulerOutput& behind = bench.scheduler.schedule();
  ASSERT_EQ(behind.num_reqs(), 2);
  const auto updates = bench.scheduler.fail_scheduled("the fan stopped");
  ASSERT_EQ(updates.size(), 1U);
  EXPECT_EQ(updates[0].request, &failed);
  EXPECT_FALSE(failed.block_ids().empty());
  const auto next = bench.update(behind);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].request, &other);
  EXPECT_EQ(next[0].new_token_id, kPlain);
  EXPECT_TRUE(failed.block_ids().empty());
}

TEST(AsyncScheduler, takes_blocks_of_broken_numbers_out_of_the_cache_before_anyone_finds_them) {
  Bench bench(async_config(), 101, kv_cache::PrefixCaching::on);
  Request& broken = bench.add(40);
  const SchedulerOutput& first = bench.scheduler.schedule();
  const SchedulerOutput& second = bench.scheduler.schedule();
  bench.update(first);
  EXPECT_GT(bench.cache.num_published_blocks(), 0);
  const SchedulerOutput& third = bench.scheduler.schedule();
  (void)bench.scheduler.update_from_output(
      std::vector<sampling::SampledToken>(static_cast<size_t>(second.num_sampling_requests),
                                          {.status = sampling::SamplingStatus::non_finite_logits}));
  EXPECT_EQ(broken.finish_reason(), "error");
  ASSERT_EQ(third.num_reqs(), 1);
  EXPECT_EQ(bench.cache.num_published_blocks(), 0) << "though it is still in a step";
}

TEST(AsyncSchedulerDeathTest, stops_on_a_third_step) {
  Bench bench(async_config());
  bench.add(5);
  bench.scheduler.schedule();
  bench.scheduler.schedule();
  EXPECT_DEATH(bench.scheduler.schedule(), "before update_from_output");
}

}  // namespace
}  // namespace reprise::scheduler
