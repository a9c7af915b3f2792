#include "reprise/cudagraph/capture/breakable_capture.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/support/fake_device/graph_test_bench.h"

// Rows BRK of the behaviour reference, from vLLM's tests/v1/cudagraph/test_breakable_cudagraph.py.
// BRK-02, -03 and -05 are left out: they test a process-wide "current capture". Here the context
// holds the capture.
namespace reprise::cudagraph {
namespace {

using testing::GraphBench;

class BreakableCaptureTest : public ::testing::Test {
 protected:
  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 2});
  GraphBench bench_{*device_};
  ForwardContext context_ = bench_.context(CudagraphRuntimeMode::PIECEWISE, 8);
};

TEST_F(BreakableCaptureTest, BRK_01_a_split_point_outside_a_capture_is_a_plain_call) {
  int calls = 0;
  split_point(context_, {}, [&](ForwardContext&) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(BreakableCaptureTest, BRK_06_a_capture_without_breaks_is_one_graph) {
  BreakableCapture capture(*device_, bench_.stream());
  bench_.scale_add(1, 5);
  const SegmentedGraph graph = std::move(capture).finish();
  EXPECT_EQ(graph.num_segments(), 1U);
  EXPECT_EQ(graph.num_graphs(), 1U);
  EXPECT_EQ(graph.num_breaks(), 0U);
}

TEST_F(BreakableCaptureTest, BRK_07_two_breaks_give_five_alternating_segments_each_break_run_once) {
  int first = 0;
  int second = 0;
  BreakableCapture capture(*device_, bench_.stream());
  context_.breakable = &capture;
  bench_.scale_add(1, 1);
  split_point(context_, {}, [&](ForwardContext&) { ++first; });
  bench_.scale_add(1, 1);
  split_point(context_, {}, [&](ForwardContext&) { ++second; });
  bench_.scale_add(1, 1);
  const SegmentedGraph graph = std::move(capture).finish();
  EXPECT_EQ(graph.num_segments(), 5U);
  EXPECT_EQ(graph.num_graphs(), 3U);
  EXPECT_EQ(graph.num_breaks(), 2U);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST_F(BreakableCaptureTest, BRK_09_replay_runs_graphs_and_breaks_in_order) {
  BreakableCapture capture(*device_, bench_.stream());
  context_.breakable = &capture;
  bench_.scale_add(1, 5);
  split_point(context_, {}, [&](ForwardContext&) { bench_.scale_add(2, 0); });
  bench_.scale_add(1, 1);
  const SegmentedGraph graph = std::move(capture).finish();
  EXPECT_EQ(graph.num_graphs(), 2U);
  EXPECT_EQ(graph.num_breaks(), 1U);
  context_.breakable = nullptr;
  for (int32_t start : {2, 0, -7}) {
    bench_.set_all(start);
    graph.replay(context_);
    bench_.stream().synchronize();
    EXPECT_EQ(bench_.data()[0], (start + 5) * 2 + 1);
    EXPECT_EQ(bench_.data()[GraphBench::kCount - 1], (start + 5) * 2 + 1);
  }
}

TEST_F(BreakableCaptureTest, BRK_13_a_split_point_inside_a_break_runs_inline) {
  int inner = 0;
  BreakableCapture capture(*device_, bench_.stream());
  context_.breakable = &capture;
  bench_.scale_add(1, 1);
  split_point(context_, {}, [&](ForwardContext& step) {
    bench_.scale_add(10, 0);
    split_point(step, {}, [&](ForwardContext&) {
      ++inner;
      bench_.scale_add(1, 3);
    });
  });
  bench_.scale_add(1, 100);
  const SegmentedGraph graph = std::move(capture).finish();
  EXPECT_EQ(graph.num_breaks(), 1U);
  EXPECT_EQ(inner, 1);
  context_.breakable = nullptr;
  bench_.set_all(0);
  graph.replay(context_);
  bench_.stream().synchronize();
  EXPECT_EQ(bench_.data()[0], 113);
  EXPECT_EQ(inner, 2);
}

TEST_F(BreakableCaptureTest, BRK_10_a_break_inside_a_region_of_two_streams) {
  const std::unique_ptr<device::Stream> side = device_->create_stream();
  const std::unique_ptr<device::Event> fork = device_->create_event();
  const std::unique_ptr<device::Event> join = device_->create_event();
  BreakableCapture capture(*device_, bench_.stream());
  context_.breakable = &capture;
  bench_.stream().record(*fork);
  side->wait(*fork);
  bench_.scale_add(7, 0);
  side->record(*join);
  bench_.stream().wait(*join);
  split_point(context_, {}, [&](ForwardContext&) { bench_.scale_add(1, 1); });
  bench_.scale_add(1, 2);
  const SegmentedGraph graph = std::move(capture).finish();
  EXPECT_EQ(graph.num_graphs(), 2U);
  EXPECT_EQ(graph.num_breaks(), 1U);
  context_.breakable = nullptr;
  for (int32_t x : {0, 1, 5}) {
    bench_.set_all(x);
    graph.replay(context_);
    bench_.stream().synchronize();
    EXPECT_EQ(bench_.data()[3], 7 * x + 3);
  }
}

TEST_F(BreakableCaptureTest, a_break_sees_the_context_of_the_step_that_replays) {
  int32_t seen = 0;
  BreakableCapture capture(*device_, bench_.stream());
  context_.breakable = &capture;
  bench_.scale_add(1, 0);
  split_point(context_, {}, [&](ForwardContext& step) { seen = step.descriptor.num_tokens; });
  bench_.scale_add(1, 0);
  const SegmentedGraph graph = std::move(capture).finish();
  ForwardContext later = bench_.context(CudagraphRuntimeMode::PIECEWISE, 5);
  graph.replay(later);
  EXPECT_EQ(seen, 5);
}

TEST_F(BreakableCaptureTest, an_exception_in_a_break_leaves_the_stream_usable) {
  try {
    BreakableCapture capture(*device_, bench_.stream());
    context_.breakable = &capture;
    split_point(context_, {}, [](ForwardContext&) { throw std::runtime_error("break failed"); });
    FAIL() << "the exception must come through";
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(bench_.stream().is_capturing());
  bench_.set_all(1);
  bench_.scale_add(2, 0);
  bench_.stream().synchronize();
  EXPECT_EQ(bench_.data()[0], 2);
}

}  // namespace
}  // namespace reprise::cudagraph
