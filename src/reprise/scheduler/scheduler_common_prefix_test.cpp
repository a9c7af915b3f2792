#include <gtest/gtest.h>

#include "tests/support/scheduler/scheduler_test_support.h"

namespace reprise::scheduler {
namespace {

using testing::Bench;
using testing::small_config;

SchedulerConfig prefix_config(int least_reqs) {
  SchedulerConfig config = small_config();
  config.least_common_prefix_reqs = least_reqs;
  return config;
}

sampling::SamplingParams answer_of(int count) { return {.max_tokens = count, .ignore_eos = true}; }

TEST(SchedulerCommonPrefix, is_what_all_requests_of_a_step_have_in_the_same_blocks) {
  Bench bench(prefix_config(2), 101, kv_cache::PrefixCaching::on);
  bench.add(70, answer_of(50));
  while (bench.requests[0]->is_in_prefill()) bench.step();  // 4 blocks of 16 tokens are cached
  const SchedulerOutput& one = bench.scheduler.schedule();
  EXPECT_EQ(one.common_prefix_len, 0) << "one request alone";
  bench.update(one);
  bench.add(40, answer_of(50));
  const SchedulerOutput& two = bench.scheduler.schedule();
  EXPECT_EQ(two.common_prefix_len, 32) << "as many whole blocks as the shorter prompt has";
  bench.update(two);
  bench.add(70, answer_of(50));
  const SchedulerOutput& three = bench.scheduler.schedule();
  EXPECT_EQ(three.common_prefix_len, 32);
  bench.update(three);
}

TEST(SchedulerCommonPrefix, ends_where_some_request_has_not_computed_it_yet) {
  SchedulerConfig config = prefix_config(2);
  config.max_num_batched_tokens = 200;
  Bench bench(config, 101, kv_cache::PrefixCaching::on);
  // Both requests begin in the same step, so neither finds blocks of the other.
  bench.add(70, answer_of(50));
  bench.add(70, answer_of(50));
  const SchedulerOutput& prompts = bench.scheduler.schedule();
  EXPECT_EQ(prompts.common_prefix_len, 0);
  bench.update(prompts);
  const SchedulerOutput& decodes = bench.scheduler.schedule();
  EXPECT_EQ(decodes.common_prefix_len, 0) << "equal tokens in different blocks do not count";
  bench.update(decodes);
}

TEST(SchedulerCommonPrefix, is_not_looked_for_in_steps_with_fewer_requests) {
  for (const int least_reqs : {0, 3}) {
    Bench bench(prefix_config(least_reqs), 101, kv_cache::PrefixCaching::on);
    bench.add(70, answer_of(50));
    while (bench.requests[0]->is_in_prefill()) bench.step();
    bench.add(70, answer_of(50));
    const SchedulerOutput& two = bench.scheduler.schedule();
    EXPECT_EQ(two.num_reqs(), 2);
    EXPECT_EQ(two.common_prefix_len, 0);
    bench.update(two);
  }
}

}  // namespace
}  // namespace reprise::scheduler
