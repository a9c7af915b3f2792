#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "reprise/scheduler/chunk_rule.h"
#include "reprise/scheduler/scheduler.h"
#include "tests/support/scheduler/scheduler_test_support.h"

// Prompts of models whose recurrent layers are computed in chunks.
namespace reprise::scheduler {
namespace {

using testing::Bench;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kPlain;
using testing::scheduled_ids;
using testing::scheduled_tokens;
using testing::small_config;

SchedulerConfig config_with_chunks(int chunk_tokens) {
  SchedulerConfig config = small_config();  // 32 tokens per step
  config.state_chunk_tokens = chunk_tokens;
  return config;
}

TEST(SchedulerChunks, cut_prompts_only_at_their_multiples) {
  Bench bench(config_with_chunks(10));
  bench.add(57);
  for (const int num_tokens : {30, 27}) {
    const SchedulerOutput& output = bench.scheduler.schedule();
    EXPECT_THAT(scheduled_tokens(output), ElementsAre(num_tokens));
    bench.update(output);
  }
}

TEST(SchedulerChunks, let_a_prompt_wait_until_a_step_has_room_for_one) {
  Bench bench(config_with_chunks(10));
  bench.add(25);
  bench.add(20);
  const SchedulerOutput& first = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(first), ElementsAre(0)) << "7 tokens are left";
  bench.update(first);
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(1, 20));
}

TEST(SchedulerChunks, do_not_divide_the_end_of_a_prompt) {
  Bench bench(config_with_chunks(10));
  bench.add(7);
  bench.add(21);
  EXPECT_THAT(scheduled_tokens(bench.scheduler.schedule()), ElementsAre(7, 21));
}

TEST(SchedulerChunks, leave_their_last_token_alone_if_a_request_begins_there) {
  const ChunkRule rule(10);
  Request request(RequestId{0}, std::vector<int32_t>(60, kPlain), {}, /*engine_seed=*/0);
  const auto limit_at = [&](int position, int num_tokens) {
    request.state().num_computed_tokens = position;
    return rule.limit(request, num_tokens, 60 - position);
  };
  request.state().num_prefill_tokens = 60;
  EXPECT_EQ(limit_at(19, 30), 1);
  EXPECT_EQ(limit_at(19, 41), 1) << "also if the step had room for the whole prompt";
  EXPECT_EQ(limit_at(18, 30), 22);
  EXPECT_EQ(limit_at(18, 1), 0);
  EXPECT_EQ(limit_at(18, 2), 2);
  EXPECT_EQ(limit_at(59, 1), 1);
  EXPECT_EQ(limit_at(20, 0), 0);
}

// Blocks have 16 tokens, chunks 40: states are kept at multiples of 80.
TEST(SchedulerChunks, move_snapshots_of_prompts_to_multiples_of_blocks_and_chunks) {
  SchedulerConfig config = config_with_chunks(40);
  config.max_num_batched_tokens = 400;
  config.prefix_cache_retention_interval = 48;
  kv_cache::KvCacheManager cache(
      101, 16, kv_cache::PrefixCaching::on, config.max_num_seqs, /*num_snapshots=*/8, 1);
  Scheduler scheduler(config, cache);
  std::vector<int32_t> prompt(190);
  for (int32_t i = 0; i < 190; ++i) prompt[static_cast<size_t>(i)] = 10 + i;
  Request request(RequestId{0}, prompt, {}, /*engine_seed=*/0);
  scheduler.add_request(request);
  for (const int end : {80, 160, 190}) {
    const SchedulerOutput& output = scheduler.schedule();
    ASSERT_EQ(output.scheduled.size(), 1U);
    const StepEntry& entry = output.scheduled[0];
    EXPECT_EQ(entry.end(), end);
    EXPECT_EQ(entry.saved_state != kv_cache::kNullStateSlot, end < 190);
    (void)scheduler.update_from_output(std::vector<sampling::SampledToken>(
        static_cast<size_t>(output.num_sampling_requests), {.token_id = kPlain}));
  }
}

TEST(SchedulerChunks, need_room_in_every_step) {
  const auto message_of = [](const SchedulerConfig& config) {
    try {
      const Bench bench(config);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  // 7 decoded tokens and a chunk.
  EXPECT_EQ(message_of(config_with_chunks(25)), "");
  EXPECT_THAT(message_of(config_with_chunks(26)), HasSubstr("raise it to at least 33"));
  SchedulerConfig config = config_with_chunks(10);
  config.long_prefill_token_threshold = 10;
  EXPECT_EQ(message_of(config), "");
  config.long_prefill_token_threshold = 9;
  EXPECT_THAT(message_of(config), HasSubstr("long_prefill_token_threshold (9)"));
  config = config_with_chunks(10);
  config.max_prompt_logits = 9;
  EXPECT_THAT(message_of(config), HasSubstr("max_prompt_logits is 9, expected at least 10"));
}

}  // namespace
}  // namespace reprise::scheduler
