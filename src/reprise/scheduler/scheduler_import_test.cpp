#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "reprise/kv_cache/transfer/kv_image.h"
#include "reprise/scheduler/scheduler.h"
#include "tests/support/scheduler/scheduler_test_support.h"

// Requests whose prompts another engine has computed.
namespace reprise::scheduler {
namespace {

using testing::Bench;
using ::testing::ElementsAre;
using testing::scheduled_tokens;
using testing::small_config;

RequestOptions with_image(int num_tokens) {
  return {.kv_image = std::make_shared<kv_cache::KvImage>(), .kv_image_tokens = num_tokens};
}

TEST(SchedulerImport, computes_the_last_token_of_the_prompt_in_a_decode_step) {
  Bench bench;
  Request& running = bench.add(5);
  bench.step();
  Request& imported = bench.add(40, {}, with_image(40));
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(output), ElementsAre(1, 1));
  EXPECT_FALSE(output.any_prefill);
  const StepEntry& entry = output.scheduled[1];
  ASSERT_EQ(entry.request, &imported);
  EXPECT_EQ(entry.num_computed_tokens, 39);
  EXPECT_EQ(entry.first_imported_token, 0);
  EXPECT_TRUE(entry.samples);
  EXPECT_EQ(imported.block_table().num_blocks(), 3);
  EXPECT_EQ(imported.num_imported_tokens(), 39);
  EXPECT_EQ(output.scheduled[0].first_imported_token, -1);
  EXPECT_NE(imported.kv_image(), nullptr);
  bench.update(output);
  EXPECT_EQ(imported.kv_image(), nullptr) << "its memory is free again";
  EXPECT_EQ(imported.num_output_tokens(), 1);
  EXPECT_EQ(running.num_output_tokens(), 2);
  const SchedulerOutput& next = bench.scheduler.schedule();
  EXPECT_EQ(next.scheduled[1].first_imported_token, -1) << "nothing is brought twice";
}

TEST(SchedulerImport, computes_what_a_shorter_prompt_elsewhere_left) {
  Bench bench;
  Request& imported = bench.add(40, {}, with_image(30));
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(output), ElementsAre(10));
  EXPECT_TRUE(output.any_prefill);
  EXPECT_EQ(imported.num_imported_tokens(), 30);
}

TEST(SchedulerImport, brings_only_the_blocks_that_are_not_cached) {
  Bench bench(small_config(), 101, kv_cache::PrefixCaching::on);
  bench.add(33);
  bench.step();
  bench.step();
  Request& imported = bench.add(40, {}, with_image(40));
  const SchedulerOutput& output = bench.scheduler.schedule();
  ASSERT_EQ(output.scheduled.back().request, &imported);
  EXPECT_EQ(output.scheduled.back().first_imported_token, 32);
  EXPECT_EQ(output.scheduled.back().num_computed_tokens, 39);
  EXPECT_EQ(imported.num_cached_tokens(), 39);
  EXPECT_EQ(imported.num_imported_tokens(), 7);
  EXPECT_EQ(bench.scheduler.prefix_cache_stats().hits, 32U);
  bench.update(output);
  // The imported blocks can be found from now on.
  Request& later = bench.add(49);
  bench.step();
  EXPECT_EQ(later.num_cached_tokens(), 32);
}

TEST(SchedulerImport, calls_a_prompt_that_is_cached_as_a_whole_a_decode_too) {
  Bench bench(small_config(), 101, kv_cache::PrefixCaching::on);
  bench.add(33);
  bench.step();
  bench.step();
  Request& imported = bench.add(33, {}, with_image(33));
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_FALSE(output.any_prefill);
  EXPECT_EQ(output.scheduled.back().first_imported_token, 32);
  EXPECT_EQ(imported.num_imported_tokens(), 0);
  bench.update(output);
  EXPECT_EQ(imported.kv_image(), nullptr);
}

TEST(SchedulerImport, keeps_what_nothing_vouches_for_out_of_the_shared_cache) {
  Bench bench(small_config(), 101, kv_cache::PrefixCaching::on);
  RequestOptions options = with_image(40);
  options.shares_prefixes = false;
  Request& imported = bench.add(40, {}, options);
  bench.step();
  bench.step();
  EXPECT_EQ(imported.num_imported_tokens(), 39);
  Request& later = bench.add(49);
  bench.step();
  EXPECT_EQ(later.num_cached_tokens(), 0);
  // Such a request also does not find blocks of others: a faster answer would reveal what others
  // have asked.
  Request& again = bench.add(40, {}, options);
  bench.step();
  EXPECT_EQ(again.num_cached_tokens(), 39);
  EXPECT_EQ(again.num_imported_tokens(), 39);
}

TEST(SchedulerImport, waits_for_blocks_like_any_other_request) {
  Bench bench(small_config(), 4);  // three blocks that requests can use
  Request& first = bench.add(20);
  bench.step();
  Request& imported = bench.add(40, {}, with_image(40));
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(1));
  EXPECT_EQ(imported.num_computed_tokens(), 0);
  EXPECT_NE(imported.kv_image(), nullptr);
  bench.scheduler.update_from_output(
      std::vector<sampling::SampledToken>{{.token_id = testing::kEos}});
  EXPECT_TRUE(first.is_finished());
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_tokens(output), ElementsAre(1));
  EXPECT_EQ(output.scheduled[0].first_imported_token, 0);
}

TEST(SchedulerImport, computes_all_of_a_prompt_whose_log_probabilities_are_wanted) {
  Bench bench;
  Request& imported = bench.add(20, {.prompt_logprobs = 1}, with_image(20));
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(20));
  EXPECT_EQ(imported.num_imported_tokens(), 0);
}

TEST(SchedulerImport, computes_a_preempted_request_again_without_the_image) {
  Bench bench(small_config(), 7);  // six blocks: 96 tokens
  bench.add(44);
  bench.step();
  bench.step();
  Request& imported = bench.add(40, {}, with_image(40));
  for (int i = 0; i < 40 && imported.num_preemptions() == 0; ++i) bench.step();
  ASSERT_EQ(imported.num_preemptions(), 1);
  while (!bench.requests[0]->is_finished()) {
    const SchedulerOutput& output = bench.scheduler.schedule();
    bench.update(output, testing::kEos);
  }
  const SchedulerOutput& again = bench.scheduler.schedule();
  ASSERT_EQ(again.scheduled.size(), 1U);
  EXPECT_EQ(again.scheduled[0].num_computed_tokens, 0);
  EXPECT_EQ(again.scheduled[0].first_imported_token, -1);
  EXPECT_TRUE(again.scheduled[0].is_in_prefill);
}

}  // namespace
}  // namespace reprise::scheduler
