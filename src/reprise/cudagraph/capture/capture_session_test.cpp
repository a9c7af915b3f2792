#include "reprise/cudagraph/capture/capture_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reprise/cudagraph/dispatch_ledger.h"

namespace reprise::cudagraph {
namespace {

class CaptureSessionTest : public ::testing::Test {
 protected:
  CaptureSessionTest() {
    DispatcherOptions options;
    options.mode = CudagraphMode::FULL_AND_PIECEWISE;
    options.max_num_seqs = 4;
    options.mixed_capture_sizes = {1, 2, 4, 8};
    options.decode_capture_sizes = {1, 2, 4};
    dispatcher_.initialize_cudagraph_keys(options);
  }
  CaptureReport run(int num_warmups, std::function<void(const DummyRun&)> dummy_run) {
    return run_capture_session(dispatcher_,
                               permission_,
                               num_warmups,
                               {.dummy_run = std::move(dummy_run),
                                .memory_in_use = [this] { return memory_; },
                                .now = [this] { return clock_ += 0.5; },
                                .on_progress =
                                    [this](const CaptureRecord&, size_t done, size_t total) {
                                      progress_.emplace_back(done, total);
                                    }});
  }
  CudagraphDispatcher dispatcher_;
  CapturePermission permission_;
  size_t memory_ = 100;
  double clock_ = 0;
  std::vector<std::pair<size_t, size_t>> progress_;
};

TEST_F(CaptureSessionTest,
       mixed_sizes_come_before_decode_sizes_each_largest_first_after_warm_ups_in_none) {
  std::vector<std::string> runs;
  const CaptureReport report = run(1, [&](const DummyRun& run) {
    EXPECT_TRUE(permission_.is_open());
    runs.push_back(fmt::format("{} {}{}",
                               to_string(run.mode),
                               run.descriptor.num_tokens,
                               run.descriptor.uniform ? "u" : ""));
  });
  EXPECT_EQ(runs,
            (std::vector<std::string>{"NONE 8",
                                      "PIECEWISE 8",
                                      "NONE 4",
                                      "PIECEWISE 4",
                                      "NONE 2",
                                      "PIECEWISE 2",
                                      "NONE 1",
                                      "PIECEWISE 1",
                                      "NONE 4u",
                                      "FULL 4u",
                                      "NONE 2u",
                                      "FULL 2u",
                                      "NONE 1u",
                                      "FULL 1u"}));
  EXPECT_EQ(report.num_captured(), 7U);
  EXPECT_FALSE(permission_.is_open()) << "sealed after warm-up";
  EXPECT_EQ(progress_.back(), std::make_pair(size_t{7}, size_t{7}));
  EXPECT_EQ(dispatcher_.dispatch({.num_tokens = 3, .num_reqs = 3, .uniform = true}).mode,
            CudagraphRuntimeMode::FULL);
}

TEST_F(CaptureSessionTest, one_key_is_captured_alone_when_a_batch_needs_it) {
  const BatchFacts batch{.num_tokens = 3, .num_reqs = 3, .uniform = true};
  std::vector<std::string> runs;
  const auto capture = [&](std::function<void(const DummyRun&)> dummy_run) {
    return capture_key(dispatcher_,
                       permission_,
                       dispatcher_.uncaptured_key(batch).value(),
                       1,
                       {.dummy_run = std::move(dummy_run),
                        .memory_in_use = [this] { return memory_; },
                        .now = [this] { return clock_ += 0.5; },
                        .on_progress = {}});
  };
  const CaptureRecord record = capture([&](const DummyRun& run) {
    EXPECT_TRUE(permission_.is_open());
    runs.emplace_back(to_string(run.mode));
  });
  EXPECT_EQ(runs, (std::vector<std::string>{"NONE", "FULL"}));
  EXPECT_EQ(record.descriptor.num_tokens, 4);
  EXPECT_FALSE(permission_.is_open()) << "sealed again";
  EXPECT_EQ(dispatcher_.dispatch(batch).mode, CudagraphRuntimeMode::FULL);
  EXPECT_EQ(dispatcher_.uncaptured_key(batch), std::nullopt);
}

TEST_F(CaptureSessionTest, a_lazy_capture_that_fails_leaves_the_batch_to_pieces) {
  const BatchFacts batch{.num_tokens = 3, .num_reqs = 3, .uniform = true};
  const CaptureRecord record =
      capture_key(dispatcher_,
                  permission_,
                  dispatcher_.uncaptured_key(batch).value(),
                  0,
                  {.dummy_run = [](const DummyRun&) { throw OutOfMemory("no memory is left"); },
                   .memory_in_use = [this] { return memory_; },
                   .now = [this] { return clock_ += 0.5; },
                   .on_progress = {}});
  EXPECT_NE(record.failure.find("no memory is left"), std::string::npos);
  EXPECT_FALSE(permission_.is_open());
  EXPECT_EQ(dispatcher_.uncaptured_key(batch)->mode, CudagraphRuntimeMode::PIECEWISE);
}

TEST_F(CaptureSessionTest, a_failed_key_is_retired_with_its_reason_and_the_rest_is_captured) {
  const CaptureReport report = run(0, [&](const DummyRun& run) {
    if (run.descriptor.uniform && run.descriptor.num_tokens == 4) {
      throw device::CaptureError("synchronize while capturing");
    }
    if (!run.descriptor.uniform && run.descriptor.num_tokens == 8)
      throw OutOfMemory("pool is full");
    memory_ += 10;
  });
  EXPECT_EQ(report.num_captured(), 5U);
  EXPECT_EQ(report.records[0].failure, "pool is full");
  EXPECT_TRUE(report.records[0].is_out_of_memory);
  EXPECT_EQ(std::ranges::count_if(report.records, &CaptureRecord::is_out_of_memory), 1);
  EXPECT_EQ(report.bytes, 50U);
  EXPECT_EQ(report.records[1].bytes, 10U);
  const BatchFacts decode{.num_tokens = 4, .num_reqs = 4, .uniform = true};
  const Decision decision = dispatcher_.dispatch(decode);
  EXPECT_EQ(decision.mode, CudagraphRuntimeMode::PIECEWISE);
  EXPECT_EQ(decision.reason, DispatchReason::piecewise_full_retired);
  EXPECT_THAT(dispatcher_.describe(decode, decision),
              ::testing::HasSubstr("synchronize while capturing"));
  EXPECT_EQ(dispatcher_.dispatch({.num_tokens = 8, .num_reqs = 1}).mode,
            CudagraphRuntimeMode::NONE);
}

TEST_F(CaptureSessionTest, a_lost_device_ends_the_session_and_still_seals) {
  EXPECT_THROW(run(0,
                   [](const DummyRun&) {
                     throw device::DeviceError("illegal address",
                                               device::DeviceError::Severity::sticky);
                   }),
               device::DeviceError);
  EXPECT_FALSE(permission_.is_open());
}

TEST(DispatchLedger, counts_each_graph_and_reason_and_all_eager_steps_as_one) {
  DispatchLedger ledger(16);
  const BatchDescriptor four{.num_tokens = 4, .num_reqs = 4, .uniform = true};
  const BatchDescriptor eight{.num_tokens = 8};
  for (int i = 0; i < 3; ++i) {
    ledger.record({.num_tokens = 4},
                  {CudagraphRuntimeMode::FULL, four, DispatchReason::full_uniform});
  }
  ledger.record({.num_tokens = 5},
                {CudagraphRuntimeMode::PIECEWISE, eight, DispatchReason::piecewise});
  ledger.record({.num_tokens = 5},
                {CudagraphRuntimeMode::PIECEWISE, eight, DispatchReason::piecewise_full_retired});
  for (int32_t n : {9, 10, 11}) {
    ledger.record(
        {.num_tokens = n},
        {CudagraphRuntimeMode::NONE, {.num_tokens = n}, DispatchReason::exceeds_largest_size});
  }
  ASSERT_EQ(ledger.decisions().size(), 4U);
  const auto& [mode, descriptor, reason, count] = ledger.decisions()[0];
  EXPECT_EQ(mode, CudagraphRuntimeMode::FULL);
  EXPECT_EQ(descriptor, four);
  EXPECT_EQ(reason, DispatchReason::full_uniform);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(ledger.decisions()[1].count, 1U);
  EXPECT_EQ(ledger.decisions()[2].reason, DispatchReason::piecewise_full_retired);
  EXPECT_EQ(ledger.decisions()[3].descriptor, BatchDescriptor{});
  EXPECT_EQ(ledger.decisions()[3].count, 3U);
  ledger.reset();
  EXPECT_TRUE(ledger.decisions().empty());
}

TEST(DispatchLedger, stays_bounded_with_more_decisions_than_it_keeps_apart) {
  constexpr auto kMost = static_cast<int32_t>(DispatchLedger::kMaxDecisions);
  DispatchLedger ledger(16);
  for (int32_t n = 0; n < kMost + 100; ++n) {
    ledger.record({.num_tokens = n},
                  {CudagraphRuntimeMode::PIECEWISE, {.num_tokens = n}, DispatchReason::piecewise});
  }
  EXPECT_EQ(ledger.decisions().size(), DispatchLedger::kMaxDecisions);
  EXPECT_EQ(ledger.steps(CudagraphRuntimeMode::PIECEWISE), kMost + 100U);
}

TEST(DispatchLedger, counts_modes_reasons_padding_and_lists_the_most_frequent_first) {
  DispatchLedger ledger(16);
  const Decision padded{.mode = CudagraphRuntimeMode::FULL,
                        .descriptor = {.num_tokens = 4, .num_reqs = 4, .uniform = true},
                        .reason = DispatchReason::full_uniform};
  const Decision eager{.descriptor = {.num_tokens = 9},
                       .reason = DispatchReason::exceeds_largest_size};
  ledger.record({.num_tokens = 9, .num_reqs = 1}, eager);
  ledger.record({.num_tokens = 3, .num_reqs = 3, .uniform = true}, padded);
  ledger.record({.num_tokens = 3, .num_reqs = 3, .uniform = true}, padded);
  EXPECT_EQ(ledger.steps(CudagraphRuntimeMode::FULL), 2U);
  EXPECT_EQ(ledger.steps(DispatchReason::exceeds_largest_size), 1U);
  EXPECT_EQ(ledger.padding_tokens(), 2U);
  const auto rows = ledger.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].unpadded_tokens, 3);
  EXPECT_EQ(rows[0].padded_tokens, 4);
  EXPECT_EQ(rows[0].count, 2U);
  ledger.reset();
  EXPECT_TRUE(ledger.rows().empty());
}

}  // namespace
}  // namespace reprise::cudagraph
