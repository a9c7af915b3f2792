#include "mini_vllm/mini_vllm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "reprise/cudagraph/capture_sizes.h"

namespace mini_vllm {
namespace {

uint64_t launches_of(Machine& machine, const std::function<void()>& call) {
  const uint64_t before = machine.launches();
  call();
  return machine.launches() - before;
}

std::vector<Op> some_ops(size_t count) {
  std::vector<Op> ops;
  for (size_t i = 0; i < count; ++i) {
    ops.push_back({.scale = 1 + static_cast<float>(i) / 4, .offset = static_cast<float>(i) - 2});
  }
  return ops;
}

TEST(LaunchCounter, counts_one_launch_per_op_of_each_eager_call) {
  Machine machine;
  const std::vector<Op> ops = some_ops(7);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(launches_of(machine, [&] { run_eager(machine, ops, {1, 2, 3}); }), 7U);
  }
}

TEST(GraphRunner, replays_any_number_of_ops_as_one_launch_with_the_results_of_eager) {
  Machine machine;
  for (size_t num_ops : {1, 2, 32, 300}) {
    const std::vector<Op> ops(num_ops, Op{.scale = 0.99F, .offset = 0.5F});
    GraphRunner runner(machine, ops);
    const Values x = {1, -2, 3.5F};
    const Values first = runner(x);
    Values later;
    EXPECT_EQ(launches_of(machine, [&] { later = runner(x); }), 1U) << num_ops;
    EXPECT_EQ(first, later);
    EXPECT_EQ(later, run_eager(machine, ops, x));
  }
}

TEST(GraphRunner, captures_once_per_shape) {
  Machine machine;
  GraphRunner runner(machine, some_ops(4));
  for (const Values& x : {Values{1}, Values{2}, Values{1, 2}, Values{3, 4}, Values{5}}) runner(x);
  EXPECT_EQ(runner.num_captured(), 2U);
}

TEST(GraphRunner, computes_from_todays_input_and_not_from_that_of_the_capture) {
  Machine machine;
  GraphRunner runner(machine, {{.scale = 10}});
  EXPECT_EQ(runner({1, 2}), (Values{10, 20}));
  EXPECT_EQ(runner({3, 4}), (Values{30, 40}));
}

TEST(GraphRunner, reads_its_static_buffer_and_not_the_callers_memory) {
  Machine machine;
  GraphRunner runner(machine, {{.scale = 2}});
  Values x = {1, 2};
  runner(x);
  x = {100, 200};  // the graph does not see this, because x is not copied into its buffer
  EXPECT_EQ(runner.replay_what_lies_there(2), (Values{4, 8}));
}

TEST(GraphRunner, needs_four_captures_for_batches_1_to_8_padded_into_1_2_4_8) {
  Machine machine;
  GraphRunner runner(machine, some_ops(3));
  const reprise::cudagraph::PaddingTable rungs({1, 2, 4, 8});
  for (int32_t batch = 1; batch <= 8; ++batch) {
    Values x(static_cast<size_t>(rungs.padded(batch)), 0);
    std::fill_n(x.begin(), batch, static_cast<float>(batch));
    Values real = runner(x);
    real.resize(static_cast<size_t>(batch));
    EXPECT_EQ(
        real,
        run_eager(
            machine, some_ops(3), Values(static_cast<size_t>(batch), static_cast<float>(batch))));
  }
  EXPECT_EQ(runner.num_captured(), 4U);
}

TEST(PiecewiseGraphRunner, launches_a_graph_per_piece_and_each_uncapturable_op_between_them) {
  Machine machine;
  std::vector<Op> ops = some_ops(10);
  ops[5].is_capturable = false;
  PiecewiseGraphRunner runner(machine, ops);
  const Values x = {1, 2, 3};
  EXPECT_EQ(runner(x), run_eager(machine, ops, x)) << "the first call is as right as any";
  EXPECT_EQ(runner.num_graphs(3), 2U);
  Values later;
  EXPECT_EQ(launches_of(machine, [&] { later = runner(x); }), 3U);
  EXPECT_EQ(later, run_eager(machine, ops, x));
}

TEST(PiecewiseGraphRunner, has_no_empty_graphs_around_neighbouring_or_outer_split_points) {
  Machine machine;
  std::vector<Op> ops = some_ops(6);
  for (size_t i : {0, 2, 3, 5}) ops[i].is_capturable = false;
  PiecewiseGraphRunner runner(machine, ops);
  const Values x = {4};
  runner(x);
  EXPECT_EQ(runner.num_graphs(1), 2U);
  EXPECT_EQ(launches_of(machine, [&] { runner(x); }), 2U + 4U);
}

TEST(Split, makes_maximal_runs_that_agree_with_the_graphs_of_a_capture) {
  Machine machine;
  for (uint32_t mask = 0; mask < 64; ++mask) {
    std::vector<Op> ops = some_ops(6);
    for (size_t i = 0; i < ops.size(); ++i) ops[i].is_capturable = (mask >> i & 1U) != 0;
    const std::vector<OpRun> runs = split(ops);
    size_t next = 0;
    size_t capturable_runs = 0;
    for (const OpRun& run : runs) {
      EXPECT_EQ(run.begin, next);
      next += run.length;
      capturable_runs += run.is_capturable ? 1 : 0;
    }
    EXPECT_EQ(next, ops.size());
    for (size_t i = 1; i < runs.size(); ++i)
      EXPECT_NE(runs[i].is_capturable, runs[i - 1].is_capturable);
    if (capturable_runs == 0) continue;
    PiecewiseGraphRunner runner(machine, ops);
    runner({1, 2});
    EXPECT_EQ(runner.num_graphs(2), capturable_runs) << "mask " << mask;
  }
}

TEST(CaptureLadder, is_1_2_4_then_steps_of_8_and_16_up_to_512) {
  const std::vector<int32_t> ladder = capture_ladder(512);
  std::vector<int32_t> expected = {1, 2, 4};
  for (int32_t size = 8; size < 256; size += 8) expected.push_back(size);
  for (int32_t size = 256; size <= 512; size += 16) expected.push_back(size);
  EXPECT_EQ(ladder, expected);
  EXPECT_EQ(ladder.size(), 51U);
}

TEST(CaptureLadder, gives_every_count_its_smallest_rung_and_none_above_the_top) {
  const std::vector<int32_t> ladder = capture_ladder(512);
  const reprise::cudagraph::PaddingTable rungs(ladder);
  EXPECT_EQ(rungs.padded(33), 40);
  for (int32_t n = 1; n <= 512; ++n) {
    EXPECT_EQ(rungs.padded(n), *std::lower_bound(ladder.begin(), ladder.end(), n)) << n;
  }
  EXPECT_EQ(rungs.padded(513), -1);
}

TEST(LaunchArithmetic, breaks_even_at_the_second_call_when_a_capture_costs_one_eager_call) {
  for (int64_t num_ops : {2, 4, 32, 300}) {
    const LaunchArithmetic costs{.num_ops = num_ops, .capture_cost = num_ops};
    EXPECT_EQ(costs.break_even_calls(), 2);
  }
  EXPECT_EQ((LaunchArithmetic{.num_ops = 1, .capture_cost = 1}.break_even_calls()), std::nullopt);
}

TEST(LaunchArithmetic, closed_form_is_what_counting_calls_gives) {
  for (int64_t num_ops : {1, 2, 3, 4, 32, 300}) {
    for (int64_t capture_cost : {1, 2, 7, 32, 160, 300, 1500}) {
      const LaunchArithmetic costs{.num_ops = num_ops, .capture_cost = capture_cost};
      std::optional<int64_t> counted;
      for (int64_t calls = 1; calls <= 2000 && !counted; ++calls) {
        if (costs.replayed(calls) < costs.eager(calls)) counted = calls;
      }
      EXPECT_EQ(costs.break_even_calls(), counted) << num_ops << " ops, capture " << capture_cost;
    }
  }
}

TEST(LaunchArithmetic, is_what_the_launch_counter_measures) {
  Machine machine;
  const std::vector<Op> ops = some_ops(12);
  GraphRunner runner(machine, ops);
  runner({1});  // captures, so that each later call is one launch
  const LaunchArithmetic costs{.num_ops = 12, .capture_cost = 1};
  const uint64_t eager = launches_of(machine, [&] {
    for (int i = 0; i < 5; ++i) run_eager(machine, ops, {1});
  });
  const uint64_t replayed = launches_of(machine, [&] {
    for (int i = 0; i < 5; ++i) runner({1});
  });
  EXPECT_EQ(static_cast<int64_t>(eager), costs.eager(5));
  EXPECT_EQ(static_cast<int64_t>(replayed), costs.replayed(5));
}

TEST(LaunchArithmetic, gains_at_most_num_ops_and_amdahl_dilutes_it) {
  const LaunchArithmetic costs{.num_ops = 300, .capture_cost = 1500};
  EXPECT_LT(costs.gain(1'000'000), 300);
  EXPECT_GT(costs.gain(1'000'000), 299);
  EXPECT_DOUBLE_EQ(speedup(1.0, 300), 300);
  EXPECT_DOUBLE_EQ(speedup(0.0, 300), 1);
  EXPECT_NEAR(speedup(0.5, 300), 1.993, 1e-3);
}

}  // namespace
}  // namespace mini_vllm
