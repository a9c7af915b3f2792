// The tests of the labs. The include folder of the target decides whether they read solution/ or
// starter/.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "lab_01.h"
#include "lab_02.h"
#include "lab_03.h"
#include "lab_04.h"
#include "lab_05.h"
#include "mini_build.h"
#include "mini_vllm/mini_vllm.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace course {
namespace {

std::vector<LabOp> lab_ops(int count) {
  std::vector<LabOp> ops;
  for (int i = 0; i < count; ++i) {
    ops.emplace_back([i](Values& x) {
      for (float& value : x) value = value * 0.5F + static_cast<float>(i);
    });
  }
  return ops;
}

// ---- lab 01 and the mini build ----

TEST(Lab01, eager_pays_one_launch_per_op_and_a_replay_pays_one) {
  LaunchCounter counter;
  const std::vector<LabOp> ops = lab_ops(10);
  GraphRunner runner(counter, ops);
  const Values x = {1, 2, 3};
  const Values eager = run_eager(counter, ops, x);
  EXPECT_EQ(counter.count(), 10U);
  EXPECT_EQ(runner(x), eager);
  EXPECT_EQ(counter.count(), 20U) << "the call that captures runs every op";
  EXPECT_EQ(runner(x), eager);
  EXPECT_EQ(counter.count(), 21U);
}

TEST(Lab01, a_new_shape_is_a_new_capture) {
  LaunchCounter counter;
  GraphRunner runner(counter, lab_ops(2));
  for (const Values& x : {Values{1}, Values{2}, Values{1, 2}, Values{3}}) runner(x);
  EXPECT_EQ(runner.num_captured(), 2U);
}

TEST(Lab01, a_replay_reads_the_static_buffer_and_not_the_callers_memory) {
  LaunchCounter counter;
  GraphRunner runner(counter, lab_ops(1));
  Values x = {8};
  EXPECT_EQ(runner(x), (Values{4}));
  x = {100};
  EXPECT_EQ(runner.replay(1), (Values{4})) << "the copy was forgotten, so the result is stale";
  EXPECT_EQ(runner(x), (Values{50}));
  EXPECT_EQ(runner.replay(1), (Values{50}));
}

TEST(Lab01, padding_to_1_2_4_8_needs_four_captures_for_batches_1_to_8) {
  LaunchCounter counter;
  GraphRunner runner(counter, lab_ops(3));
  const std::vector<int32_t> rungs = {1, 2, 4, 8};
  for (int32_t batch = 1; batch <= 8; ++batch)
    runner(Values(static_cast<size_t>(rung_of(rungs, batch).value()), 1));
  EXPECT_EQ(runner.num_captured(), 4U);
}

TEST(MiniBuild, ten_ops_split_at_the_sixth_launch_three_times) {
  LaunchCounter counter;
  std::vector<SplitOp> ops;
  for (const LabOp& op : lab_ops(10)) ops.push_back({op, ops.size() != 5});
  PiecewiseGraphRunner runner(counter, ops);
  EXPECT_EQ(runner.num_graphs(), 2U);
  const Values x = {7, 8};
  EXPECT_EQ(runner(x), run_eager(counter, lab_ops(10), x));
  counter.reset();
  EXPECT_EQ(runner(x), run_eager(counter, lab_ops(10), x));
  EXPECT_EQ(counter.count(), 3U + 10U) << "two graphs and the op between them, and then ten ops";
}

TEST(MiniBuild, counts_what_the_real_device_counts) {
  for (uint32_t mask = 0; mask < 32; ++mask) {
    LaunchCounter counter;
    mini_vllm::Machine machine;
    std::vector<SplitOp> ops;
    std::vector<mini_vllm::Op> real_ops;
    for (uint32_t i = 0; i < 5; ++i) {
      const bool is_capturable = (mask >> i & 1U) != 0;
      ops.push_back({lab_ops(1)[0], is_capturable});
      real_ops.push_back({.scale = 0.5F, .offset = 0, .is_capturable = is_capturable});
    }
    PiecewiseGraphRunner runner(counter, ops);
    mini_vllm::PiecewiseGraphRunner real(machine, real_ops);
    const Values x = {3};
    EXPECT_EQ(runner(x), real(x));
    counter.reset();
    const uint64_t before = machine.launches();
    EXPECT_EQ(runner(x), real(x));
    EXPECT_EQ(counter.count(), machine.launches() - before) << "mask " << mask;
  }
}

// ---- lab 02 ----

TEST(Lab02, break_even_is_where_counting_calls_finds_it) {
  for (const int64_t num_ops : {1, 4, 32, 300}) {
    for (const int64_t capture_cost : {num_ops, 5 * num_ops}) {
      const LaunchCosts costs{.num_ops = num_ops, .capture_cost = capture_cost};
      std::optional<int64_t> counted;
      for (int64_t calls = 1; calls < 1000 && !counted; ++calls) {
        if (costs.replayed(calls) < costs.eager(calls)) counted = calls;
      }
      EXPECT_EQ(costs.break_even(), counted) << num_ops << " ops, capture " << capture_cost;
    }
  }
}

TEST(Lab02, the_gain_tends_to_the_number_of_ops_and_amdahl_dilutes_it) {
  const LaunchCosts costs{.num_ops = 300, .capture_cost = 300};
  EXPECT_EQ(costs.break_even(), 2);
  EXPECT_DOUBLE_EQ(costs.gain(1), 1);
  EXPECT_NEAR(costs.gain(10'000'000), 300, 0.1);
  EXPECT_NEAR(step_speedup(0.5, 300), 1.993, 1e-3);
  EXPECT_DOUBLE_EQ(step_speedup(0, 300), 1);
}

// ---- lab 03 ----

using reprise::cudagraph::CudagraphMode;

constexpr std::array<std::pair<Mode, CudagraphMode>, 5> kModes = {{
    {kNone, CudagraphMode::NONE},
    {kPiecewise, CudagraphMode::PIECEWISE},
    {kFull, CudagraphMode::FULL},
    {kFullDecodeOnly, CudagraphMode::FULL_DECODE_ONLY},
    {kFullAndPiecewise, CudagraphMode::FULL_AND_PIECEWISE},
}};

TEST(Lab03, the_algebra_of_modes_is_that_of_the_engine) {
  for (const auto& [mode, real] : kModes) {
    EXPECT_EQ(static_cast<int>(decode_mode(mode)),
              static_cast<int>(reprise::cudagraph::decode_mode(real)));
    EXPECT_EQ(static_cast<int>(mixed_mode(mode)),
              static_cast<int>(reprise::cudagraph::mixed_mode(real)));
    EXPECT_EQ(separate_routine(mode), reprise::cudagraph::separate_routine(real));
    EXPECT_EQ(requires_piecewise_compilation(mode),
              reprise::cudagraph::requires_piecewise_compilation(real));
    for (const Runtime part : {Runtime::NONE, Runtime::PIECEWISE, Runtime::FULL}) {
      EXPECT_EQ(has_mode(mode, part),
                reprise::cudagraph::has_mode(
                    real, static_cast<reprise::cudagraph::CudagraphRuntimeMode>(part)));
    }
  }
}

TEST(Lab03, routes_every_batch_as_the_engines_dispatcher) {
  namespace cg = reprise::cudagraph;
  for (const auto& [mode, real] : kModes) {
    for (const bool is_captured : {false, true}) {
      cg::CudagraphDispatcher dispatcher;
      dispatcher.initialize_cudagraph_keys({.mode = real,
                                            .max_num_seqs = 8,
                                            .mixed_capture_sizes = {8},
                                            .decode_capture_sizes = {8}});
      for (const cg::CaptureGroup& group : dispatcher.capture_plan()) {
        for (const cg::BatchDescriptor& key : group.descriptors) {
          if (is_captured) dispatcher.mark_captured(group.mode, key);
        }
      }
      for (const bool is_uniform : {false, true}) {
        const cg::Decision decision = dispatcher.dispatch(
            {.num_tokens = 8, .num_reqs = is_uniform ? 8 : 2, .uniform = is_uniform});
        EXPECT_EQ(static_cast<int>(route(mode, is_uniform, is_captured)),
                  static_cast<int>(decision.mode))
            << to_string(real) << (is_uniform ? " decode" : " mixed") << is_captured;
      }
    }
  }
}

// ---- lab 04 ----

TEST(Lab04, a_graph_of_the_real_device_is_one_launch_with_the_results_of_eager) {
  mini_vllm::Machine machine;
  for (const int32_t batch : {1, 8, 64}) {
    const Measured measured = measure(machine, 40, batch, 20);
    EXPECT_TRUE(measured.results_are_equal);
    EXPECT_EQ(measured.eager_launches, 40U);
    EXPECT_EQ(measured.graph_launches, 1U);
    EXPECT_GT(measured.eager_seconds, 0);  // how much faster is for the page, not for a test
    EXPECT_GT(measured.graph_seconds, 0);
  }
}

// ---- lab 05 ----

TEST(Lab05, the_ladder_is_vllms_for_every_maximum) {
  for (int32_t max_size = 1; max_size <= 512; ++max_size) {
    const std::vector<int32_t> expected = mini_vllm::capture_ladder(max_size);
    std::vector<int32_t> ladder = capture_ladder(max_size);
    // The engine adds the maximum itself, so that its largest batch has a graph.
    if (ladder.empty() || ladder.back() != expected.back()) ladder.push_back(expected.back());
    EXPECT_EQ(ladder, expected) << max_size;
  }
  EXPECT_EQ(capture_ladder(512).size(), 51U);
}

TEST(Lab05, every_batch_has_the_smallest_rung_that_holds_it) {
  const std::vector<int32_t> ladder = capture_ladder(512);
  EXPECT_EQ(rung_of(ladder, 33), 40);
  EXPECT_EQ(rung_of(ladder, 512), 512);
  EXPECT_EQ(rung_of(ladder, 513), std::nullopt);
  for (int32_t n = 2; n <= 512; ++n) {
    EXPECT_GE(rung_of(ladder, n).value(), n);
    EXPECT_LE(rung_of(ladder, n - 1), rung_of(ladder, n));
  }
  EXPECT_EQ(wasted_rows(ladder, std::vector<int32_t>{33, 40, 1, 600}), 7);
}

}  // namespace
}  // namespace course
