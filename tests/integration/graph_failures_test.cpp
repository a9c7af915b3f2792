#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/isa.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/graph_verification.h"

// Publicly reported failures of captured graphs (docs/graph-failures.md), each rebuilt as small as
// possible: the reported mistake happens in a capture, and a named rule refuses the graph. No
// launch computes anything, because the rules only look at nodes.
namespace reprise {
namespace {

using cudagraph::CaptureRecord;
using cudagraph::CaptureVerdict;
using cudagraph::MemoryRole;
using device::BufferUse;

struct alignas(16) ValueArguments {
  int64_t value = 0;
  int64_t unused = 0;  // instead of padding, which has no value
};

void do_nothing(const void*, device::BlockRange) noexcept {}
constexpr device::Kernel kAttention{.name = "attention", .cpu = do_nothing};
constexpr device::Kernel kPlanner{.name = "planner", .cpu = do_nothing};
constexpr device::Kernel kDraftHead{.name = "draft_head", .cpu = do_nothing};
constexpr device::Kernel kQuantize{.name = "quantize", .cpu = do_nothing};

BufferUse use(device::BufferView memory, BufferUse::Access access) {
  return {memory.data, memory.bytes, access};
}
BufferUse reads(device::BufferView memory) { return use(memory, BufferUse::Access::read); }
BufferUse writes(device::BufferView memory) { return use(memory, BufferUse::Access::write); }

/// A forward that each test writes itself, with the memory of an engine around it.
class GraphFailures : public ::testing::Test {
 protected:
  using Forward = std::function<void()>;

  GraphFailures() {
    verification_.add_memory("model.layers.0.weight", weight_.view(), MemoryRole::constant);
    verification_.add_memory("KV cache, keys of layer 0", cache_.view(), MemoryRole::kept);
  }

  /// Captures the forward twice in the same shape: as for a batch with 1 real request, and with 2.
  CaptureRecord capture(const Forward& forward) {
    cudagraph::CudagraphDispatcher dispatcher;
    cudagraph::DispatcherOptions options;
    options.mode = cudagraph::CudagraphMode::FULL;
    options.max_num_seqs = 4;
    options.mixed_capture_sizes = {4};
    dispatcher.initialize_cudagraph_keys(options);
    const cudagraph::CaptureGroup group = dispatcher.capture_plan().at(0);
    const cudagraph::BatchDescriptor& descriptor = group.descriptors.at(0);
    cudagraph::CudagraphWrapper wrapper(
        [&](cudagraph::ForwardContext&, std::span<const Tensor>, std::vector<Tensor>& outputs) {
          forward();
          outputs.clear();
        },
        cudagraph::CudagraphRuntimeMode::FULL,
        *device_,
        permission_);
    permission_.set_observer(&verification_);
    const auto run = [&] {
      verification_.begin_key(staged_, path_);
      cudagraph::ForwardContext context{.runtime_mode = cudagraph::CudagraphRuntimeMode::FULL,
                                        .descriptor = descriptor,
                                        .stream = &stream()};
      wrapper(context, {}, outputs_);
      outputs_.clear();
      held_.clear();
    };
    const CaptureRecord record =
        cudagraph::capture_key(dispatcher,
                               permission_,
                               {group.mode, descriptor},
                               0,
                               {.dummy_run =
                                    [&](const cudagraph::DummyRun&) {
                                      num_requests_ = 1;
                                      run();
                                    },
                                .verify =
                                    [&](const cudagraph::DummyRun&, CaptureRecord& judged) {
                                      permission_.set_repeats(true);
                                      verification_.begin_second_capture();
                                      num_requests_ = 2;
                                      run();
                                      verification_.end_second_capture();
                                      permission_.set_repeats(false);
                                      verification_.judge(judged);
                                    },
                                .memory_in_use = [] { return size_t{0}; },
                                .now = [] { return 0.0; },
                                .on_progress = {}});
    permission_.set_observer(nullptr);
    return record;
  }

  void expect_refused(const CaptureRecord& record, const std::string& rule, const char* part) {
    EXPECT_EQ(record.verdict, CaptureVerdict::violated);
    EXPECT_EQ(record.rule, rule) << record.failure;
    EXPECT_NE(record.failure.find(part), std::string::npos) << record.failure;
  }

  template <size_t kUses>
  void launch(const device::Kernel& kernel,
              const std::array<BufferUse, kUses>& uses,
              int64_t value = 0,
              uint32_t num_blocks = 2) {
    const ValueArguments args{.value = value};
    stream().launch({.kernel = &kernel,
                     .num_blocks = num_blocks,
                     .args = std::as_bytes(std::span(&args, 1)),
                     .uses = uses});
  }
  /// Memory of the graph, until the capture ends.
  device::BufferView take(size_t bytes) {
    held_.emplace_back(execution_.graph_pool().allocate(bytes));
    return {held_.back().get()->data, bytes};
  }
  Tensor tensor(device::BufferView memory) {
    return Tensor::borrow(
        {DType::i32, {static_cast<int64_t>(memory.bytes / 4)}}, memory.data, execution_.executor());
  }
  [[nodiscard]] device::Stream& stream() { return execution_.stream(); }
  static device::BufferView part(device::BufferView memory, size_t offset, size_t bytes) {
    return {static_cast<std::byte*>(memory.data) + offset, bytes};
  }

  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 1});
  runner::Execution execution_{
      *device_, kernels::kernel_table(kernels::best_isa(device::detect_cpu_features()))};
  device::Buffer weight_ = device_->allocate(4096);
  device::Buffer cache_ = device_->allocate(4096);
  device::Buffer batch_ = device_->allocate(4096);  // persistent buffers of the steps
  device::Buffer plans_ = device_->allocate(4096);
  runner::GraphVerification verification_{cudagraph::VerifyGraphs::strict, execution_};
  cudagraph::CapturePermission permission_;
  std::vector<Tensor> staged_;  // the inputs of the step
  AttentionPath path_;
  int64_t num_requests_ = 0;  // of the batch that is captured
  std::vector<Tensor> outputs_;
  std::vector<device::PoolReference> held_;
};

TEST_F(GraphFailures, a_graph_that_keeps_the_rules_is_proved) {
  staged_ = {tensor(part(batch_.view(), 0, 16))};
  const CaptureRecord record = capture([&] {
    const device::BufferView hidden = take(256);
    launch(kQuantize, std::array{reads(part(batch_.view(), 0, 16)), writes(hidden)});
    launch(
        kAttention,
        std::array{reads(hidden), reads(weight_.view()), reads(cache_.view()), writes(take(64))});
  });
  EXPECT_EQ(record.verdict, CaptureVerdict::proved) << record.failure;
  EXPECT_EQ(record.failure, "");
}

TEST_F(GraphFailures, a_planner_that_ran_in_the_warm_up_is_missing_in_the_graph) {
  bool is_planned = true;  // by the warm-up
  const CaptureRecord record = capture([&] {
    const device::BufferView plan = take(64);
    if (!is_planned) launch(kPlanner, std::array{writes(plan)});
    launch(kAttention, std::array{reads(plan), writes(take(64))});
  });
  expect_refused(record, "reads_defined_memory", "node 0 (attention) reads memory that no earlier");
}

TEST_F(GraphFailures, work_that_was_skipped_as_cached_is_missing_in_the_graph) {
  bool has_quantized = false;
  device::BufferView quantized;
  const CaptureRecord record = capture([&] {
    if (!has_quantized) quantized = take(64);
    if (has_quantized) launch(kQuantize, std::array{writes(quantized)});
    launch(kAttention, std::array{reads(quantized), writes(take(64))});
  });
  expect_refused(record, "reads_defined_memory", "graph pool");
}

TEST_F(GraphFailures, positions_beyond_those_of_the_step_are_stale) {
  staged_ = {tensor(part(batch_.view(), 0, 16))};  // 4 positions
  const CaptureRecord record = capture(
      [&] { launch(kDraftHead, std::array{reads(part(batch_.view(), 0, 32)), writes(take(64))}); });
  expect_refused(record, "uses_known_memory", "node 0 (draft_head) uses memory without a name");
}

TEST_F(GraphFailures, a_padded_grid_reads_entries_that_no_plan_has) {
  path_.plan = tensor(part(plans_.view(), 0, 64));  // as many entries as there are requests
  const CaptureRecord record = capture([&] {
    launch(kAttention, std::array{reads(part(plans_.view(), 0, 128)), writes(take(64))});
  });
  expect_refused(record, "uses_known_memory", "64 bytes");
}

TEST_F(GraphFailures, a_graph_that_reads_the_plan_of_another_wrapper_is_refused) {
  path_.plan = tensor(part(plans_.view(), 0, 64));
  verification_.add_memory(
      "plan of another wrapper", part(plans_.view(), 64, 64), MemoryRole::foreign);
  const CaptureRecord record = capture([&] {
    launch(kAttention, std::array{reads(part(plans_.view(), 64, 64)), writes(take(64))});
  });
  expect_refused(record, "keeps_lifetimes_apart", "plan of another wrapper + 0, 64 bytes");
}

TEST_F(GraphFailures, results_of_eager_work_between_replays_are_not_read) {
  const device::PoolReference temporary(execution_.eager_pool().allocate(64));
  const CaptureRecord record = capture([&] {
    launch(kAttention, std::array{reads({temporary.get()->data, 64}), writes(take(64))});
  });
  expect_refused(record, "keeps_lifetimes_apart", "pool of eager work");
}

TEST_F(GraphFailures, arguments_in_memory_of_the_host_that_is_freed_are_refused) {
  const CaptureRecord record = capture([&] {
    const std::vector<int64_t> strides(8);  // dies with this call
    launch(kAttention,
           std::array{use({const_cast<int64_t*>(strides.data()), 64}, BufferUse::Access::read),
                      writes(take(64))});
  });
  expect_refused(record, "uses_known_memory", "64 bytes at 0x");
}

TEST_F(GraphFailures, a_value_of_the_batch_in_the_arguments_is_found_by_a_second_capture) {
  const CaptureRecord record = capture([&] {
    launch(kAttention, std::array{reads(cache_.view()), writes(take(64))}, num_requests_);
  });
  expect_refused(record,
                 "depends_on_no_batch",
                 "has other arguments for another batch, first in byte 0: 0x01 and 0x02");
}

TEST_F(GraphFailures, a_grid_of_the_batch_is_found_by_a_second_capture) {
  const CaptureRecord record = capture([&] {
    launch(kAttention,
           std::array{reads(cache_.view()), writes(take(64))},
           0,
           static_cast<uint32_t>(num_requests_));
  });
  expect_refused(record, "depends_on_no_batch", "has 1 blocks, and 2 for another batch");
}

TEST_F(GraphFailures, a_branch_of_the_host_is_found_by_a_second_capture) {
  const CaptureRecord record = capture([&] {
    launch(kAttention, std::array{reads(cache_.view()), writes(take(64))});
    if (num_requests_ > 1) launch(kQuantize, std::array{reads(cache_.view()), writes(take(64))});
  });
  expect_refused(record, "depends_on_no_batch", "one batch gives 1 nodes, another gives 2");
}

TEST_F(GraphFailures, a_graph_that_changes_a_weight_or_an_input_is_refused) {
  staged_ = {tensor(part(batch_.view(), 0, 16))};
  expect_refused(capture([&] { launch(kQuantize, std::array{writes(weight_.view())}); }),
                 "writes_own_memory",
                 "writes a constant: model.layers.0.weight + 0, 4096 bytes");
  expect_refused(
      capture([&] { launch(kDraftHead, std::array{writes(part(batch_.view(), 0, 16))}); }),
      "writes_own_memory",
      "writes an input of the step: input_ids + 0, 16 bytes");
}

TEST_F(GraphFailures, a_capture_that_waits_or_allocates_is_named) {
  expect_refused(capture([&] { stream().synchronize(); }), "only_records", "synchronize");
  expect_refused(capture([&] { (void)device_->allocate(64); }), "only_records", "allocate");
  int32_t on_host = 0;
  expect_refused(capture([&] { stream().copy_to_host(&on_host, batch_.data(), 4); }),
                 "only_records",
                 "copy_to_host");
}

}  // namespace
}  // namespace reprise
