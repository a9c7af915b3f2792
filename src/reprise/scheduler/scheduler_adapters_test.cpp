#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "tests/support/scheduler/scheduler_test_support.h"

namespace reprise::scheduler {
namespace {

using testing::Bench;
using ::testing::ElementsAre;
using testing::scheduled_ids;
using testing::small_config;

SchedulerConfig adapter_config(int max_loras) {
  SchedulerConfig config = small_config();
  config.max_loras = max_loras;
  return config;
}

sampling::SamplingParams tokens(int count) { return {.max_tokens = count, .ignore_eos = true}; }

TEST(SchedulerAdapters, are_at_most_max_loras_different_ones_in_a_step) {
  Bench bench(adapter_config(2));
  for (const uint64_t lora : {1, 2, 3, 1, 0, 2}) bench.add(2, tokens(3), {.lora_id = lora});
  const SchedulerOutput& first = bench.scheduler.schedule();
  // Requests whose adapter is already in the step, and requests without an adapter, overtake the
  // request with adapter 3.
  EXPECT_THAT(scheduled_ids(first), ElementsAre(0, 1, 3, 4, 5));
  EXPECT_EQ(first.num_active_loras, 2);
  bench.update(first);
  bench.step();
  bench.step();
  const SchedulerOutput& later = bench.scheduler.schedule();
  EXPECT_THAT(scheduled_ids(later), ElementsAre(2));
  EXPECT_EQ(later.num_active_loras, 1);
  bench.update(later);
}

TEST(SchedulerAdapters, count_no_adapter_for_requests_of_the_model_alone) {
  Bench bench(adapter_config(1));
  bench.add(2, tokens(1));
  const SchedulerOutput& output = bench.scheduler.schedule();
  EXPECT_EQ(output.num_active_loras, 0);
  bench.update(output);
}

TEST(SchedulerAdapters, of_a_request_that_waited_too_long_are_overtaken_no_more) {
  SchedulerConfig config = adapter_config(1);
  config.max_lora_wait_steps = 4;
  Bench bench(config);
  bench.add(2, tokens(3), {.lora_id = 1});
  Request& patient = bench.add(2, tokens(2), {.lora_id = 2});
  // A new request with adapter 1 arrives before every step: without the bound, adapter 2 would
  // never run.
  int steps = 0;
  for (; !patient.is_finished() && steps < 40; ++steps) {
    bench.add(2, tokens(3), {.lora_id = 1});
    bench.step();
  }
  EXPECT_TRUE(patient.is_finished());
  EXPECT_GT(steps, 4);
  EXPECT_LT(steps, 15);
}

TEST(SchedulerAdapters, are_refused_by_an_engine_without_adapters) {
  Bench bench;
  EXPECT_THROW(bench.add(2, tokens(1), {.lora_id = 1}), InvalidArgument);
}

TEST(SchedulerAdapters, share_no_cached_prefix_with_each_other_or_with_the_model) {
  Bench bench(adapter_config(4), 101, kv_cache::PrefixCaching::on);
  const auto cached_tokens = [&](uint64_t lora) {
    Request& request = bench.add(40, tokens(1), {.lora_id = lora});
    while (!request.is_finished()) bench.step();
    return request.num_cached_tokens();
  };
  EXPECT_EQ(cached_tokens(1), 0);
  EXPECT_EQ(cached_tokens(2), 0);
  EXPECT_EQ(cached_tokens(0), 0);
  EXPECT_EQ(cached_tokens(1), 32);
  EXPECT_EQ(cached_tokens(2), 32);
  EXPECT_EQ(cached_tokens(0), 32);
}

}  // namespace
}  // namespace reprise::scheduler
