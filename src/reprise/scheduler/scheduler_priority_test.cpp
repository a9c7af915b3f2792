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

SchedulerConfig priority_config() {
  SchedulerConfig config = small_config();
  config.policy = SchedulingPolicy::priority;
  return config;
}

sampling::SamplingParams endless() { return {.max_tokens = 150, .ignore_eos = true}; }

TEST(PriorityPolicy, admits_lower_values_first_and_equals_by_arrival) {
  SchedulerConfig config = priority_config();
  config.max_num_seqs = 1;
  Bench bench(config);
  for (const int priority : {3, -1, 3, 0, -1}) {
    bench.add(4, {.max_tokens = 1}, {.priority = priority});
  }
  std::vector<uint64_t> order;
  while (bench.scheduler.has_unfinished_requests()) {
    const SchedulerOutput& output = bench.scheduler.schedule();
    for (const uint64_t id : scheduled_ids(output)) order.push_back(id);
    bench.update(output);
  }
  EXPECT_THAT(order, ElementsAre(1, 4, 3, 0, 2));
}

TEST(PriorityPolicy, preempts_the_lowest_priority_even_if_it_came_first) {
  Bench bench(priority_config(), /*num_blocks=*/5);
  Request& low = bench.add(30, endless(), {.priority = 1});  // 2 blocks
  bench.step();
  Request& high = bench.add(30, endless(), {.priority = 0});  // the other 2 blocks
  while (bench.scheduler.num_preemptions() == 0) bench.step();
  EXPECT_EQ(low.status(), RequestStatus::preempted);
  EXPECT_EQ(high.status(), RequestStatus::running);
}

TEST(PriorityPolicy, a_waiting_request_preempts_nobody) {
  SchedulerConfig config = priority_config();
  config.max_num_seqs = 1;
  Bench bench(config);
  Request& low = bench.add(4, {.max_tokens = 3, .ignore_eos = true}, {.priority = 5});
  bench.step();
  bench.add(4, {.max_tokens = 1}, {.priority = 0});
  bench.step();
  bench.step();
  EXPECT_TRUE(low.is_finished());
}

TEST(PriorityPolicy, promotes_who_has_waited_too_long) {
  SchedulerConfig config = priority_config();
  config.max_num_seqs = 1;
  config.max_priority_wait_steps = 40;
  Bench bench(config);
  bench.add(4, {.max_tokens = 1}, {.priority = 0});
  Request& patient = bench.add(4, {.max_tokens = 3, .ignore_eos = true}, {.priority = 9});
  int num_steps = 0;
  // Without promotion this stream of requests would make the patient request wait for ever.
  for (; !patient.is_finished() && num_steps < 200; ++num_steps) {
    bench.add(4, {.max_tokens = 1}, {.priority = 0});
    bench.step();
  }
  EXPECT_TRUE(patient.is_promoted());
  EXPECT_GE(num_steps, 40);
  EXPECT_LE(num_steps, 40 + 16 + 3) << "the bound, a look, and its own steps";
}

TEST(PriorityPolicy, needs_to_be_asked_for) {
  Bench bench;
  EXPECT_THROW(bench.add(4, {}, {.priority = 1}), InvalidArgument);
  EXPECT_THROW(bench.add(4, {}, {.cache_salt = std::string(kMaxCacheSaltBytes + 1, 's')}),
               InvalidArgument);
  bench.requests.clear();
  EXPECT_FALSE(bench.scheduler.has_unfinished_requests());
  bench.add(4, {}, {.cache_salt = std::string(kMaxCacheSaltBytes, 's')});
}

}  // namespace
}  // namespace reprise::scheduler
