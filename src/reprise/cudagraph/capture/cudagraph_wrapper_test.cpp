#include "reprise/cudagraph/capture/cudagraph_wrapper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_device/graph_test_bench.h"

// Rows WRP of the behaviour reference, from vLLM's tests/v1/cudagraph/test_cudagraph_dispatch.py.
// WRP-12 and WRP-13 are left out: WRP-12 tests metadata objects of vLLM's second cudagraph manager,
// which the runner's tests of dummy runs cover, and WRP-13 tests vLLM's profiler hook.
namespace reprise::cudagraph {
namespace {

using testing::GraphBench;

class CudagraphWrapperTest : public ::testing::Test {
 protected:
  // Wraps a callable that adds one to its input and counts its runs.
  CudagraphWrapper make(CudagraphRuntimeMode mode, CudagraphWrapperOptions options = {}) {
    return CudagraphWrapper(
        [this](ForwardContext&, std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
          ++body_runs_;
          bench_.scale_add_at(inputs[0].data_as<int32_t>(), 1, 1);
          outputs.assign(inputs.begin(), inputs.end());
        },
        mode,
        *device_,
        permission_,
        options);
  }
  void call(CudagraphWrapper& wrapper, CudagraphRuntimeMode mode, int32_t num_tokens) {
    ForwardContext context = bench_.context(mode, num_tokens);
    const std::array inputs{bench_.tensor()};
    wrapper(context, inputs, outputs_);
    bench_.stream().synchronize();
  }

  std::unique_ptr<device::Device> device_ = device::create_cpu_device({.num_threads = 2});
  GraphBench bench_{*device_};
  CapturePermission permission_;
  std::vector<Tensor> outputs_;
  int body_runs_ = 0;
};

TEST_F(CudagraphWrapperTest, WRP_02_the_second_call_replays_once_and_equals_eager) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  call(wrapper, CudagraphRuntimeMode::FULL, 8);
  bench_.set_all(41);
  const uint64_t graph_launches = bench_.stream().counters().graph_launches;
  call(wrapper, CudagraphRuntimeMode::FULL, 8);
  EXPECT_EQ(bench_.stream().counters().graph_launches, graph_launches + 1);
  EXPECT_EQ(bench_.data()[0], 42);
  EXPECT_EQ(body_runs_, 1);
  EXPECT_EQ(wrapper.counters().captures, 1U);
  EXPECT_EQ(wrapper.counters().replays, 1U);
}

TEST_F(CudagraphWrapperTest, capture_records_without_running) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  bench_.set_all(7);
  call(wrapper, CudagraphRuntimeMode::FULL, 8);
  EXPECT_EQ(bench_.data()[0], 7);
}

TEST_F(CudagraphWrapperTest, WRP_03_another_mode_passes_through_without_an_entry) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  bench_.set_all(0);
  call(wrapper, CudagraphRuntimeMode::PIECEWISE, 8);
  EXPECT_EQ(body_runs_, 1);
  EXPECT_EQ(bench_.data()[0], 1);
  EXPECT_FALSE(wrapper.has({.num_tokens = 8}));
  EXPECT_EQ(wrapper.counters().pass_throughs, 1U);
}

TEST_F(CudagraphWrapperTest, WRP_05_warm_up_then_capture_and_replay_of_two_sizes_then_bypass) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  call(wrapper, CudagraphRuntimeMode::NONE, 1);
  for (int32_t size : {1, 1, 2, 2}) call(wrapper, CudagraphRuntimeMode::FULL, size);
  call(wrapper, CudagraphRuntimeMode::NONE, 3);  // the dispatcher gives size 3 the mode NONE
  EXPECT_EQ(wrapper.counters().captures, 2U);
  EXPECT_EQ(wrapper.counters().replays, 2U);
  EXPECT_EQ(wrapper.counters().pass_throughs, 2U);
}

TEST_F(CudagraphWrapperTest, WRP_06_an_unknown_key_after_sealing_is_refused_and_names_both_sides) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  call(wrapper, CudagraphRuntimeMode::FULL, 4);
  permission_.seal();
  try {
    call(wrapper, CudagraphRuntimeMode::FULL, 8);
    FAIL() << "must throw";
  } catch (const UnknownKeyError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("tokens=8"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("tokens=4"));
  }
}

class NestedWrapperTest : public CudagraphWrapperTest {
 protected:
  NestedWrapperTest()
      : inner_(make(CudagraphRuntimeMode::PIECEWISE)),
        outer_(
            [this](
                ForwardContext& context, std::span<const Tensor> inputs, std::vector<Tensor>& out) {
              ++outer_runs_;
              inner_(context, inputs, out);
            },
            CudagraphRuntimeMode::FULL,
            *device_,
            permission_) {
    permission_.open();
  }
  int outer_runs_ = 0;
  CudagraphWrapper inner_;
  CudagraphWrapper outer_;
};

TEST_F(NestedWrapperTest, WRP_07_08_in_full_only_the_outer_one_acts) {
  call(outer_, CudagraphRuntimeMode::FULL, 8);
  EXPECT_EQ(outer_runs_, 1);
  EXPECT_EQ(body_runs_, 1);
  EXPECT_EQ(inner_.counters().captures, 0U);
  bench_.set_all(1);
  call(outer_, CudagraphRuntimeMode::FULL, 8);
  EXPECT_EQ(bench_.data()[0], 2);
  EXPECT_EQ(outer_runs_, 1);
  EXPECT_EQ(body_runs_, 1);
}

TEST_F(NestedWrapperTest,
       WRP_10_in_piecewise_the_outer_one_passes_through_and_the_inner_one_replays) {
  call(outer_, CudagraphRuntimeMode::PIECEWISE, 8);
  bench_.set_all(1);
  call(outer_, CudagraphRuntimeMode::PIECEWISE, 8);
  EXPECT_EQ(outer_runs_, 2);
  EXPECT_EQ(body_runs_, 1);
  EXPECT_EQ(bench_.data()[0], 2);
}

TEST_F(CudagraphWrapperTest, M11_a_moved_input_is_refused_on_every_replay_with_both_addresses) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  call(wrapper, CudagraphRuntimeMode::FULL, 8);
  const device::Buffer moved = device_->allocate(GraphBench::kCount * sizeof(int32_t));
  ForwardContext context = bench_.context(CudagraphRuntimeMode::FULL, 8);
  const std::array inputs{bench_.tensor_at(moved.data())};
  bench_.set_all(5);
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      wrapper(context, inputs, outputs_);
      FAIL() << "a stale address must be refused";
    } catch (const StaleAddressError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(fmt::format("{}", fmt::ptr(moved.data()))));
      EXPECT_THAT(error.what(), ::testing::HasSubstr(fmt::format("{}", fmt::ptr(bench_.data()))));
    }
  }
  EXPECT_EQ(bench_.data()[0], 5) << "nothing may have been launched";
  call(wrapper, CudagraphRuntimeMode::FULL, 8);  // a replay with the right address still works
  EXPECT_EQ(bench_.data()[0], 6);
}

TEST_F(CudagraphWrapperTest, a_moved_or_resized_binding_is_refused) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::FULL);
  const device::Buffer cache = device_->allocate(64);
  std::array bindings{cache.view()};
  ForwardContext context = bench_.context(CudagraphRuntimeMode::FULL, 8);
  context.bindings = bindings;
  const std::array inputs{bench_.tensor()};
  wrapper(context, inputs, outputs_);
  EXPECT_NO_THROW(wrapper(context, inputs, outputs_));
  bindings[0].bytes = 32;
  EXPECT_THROW(wrapper(context, inputs, outputs_), StaleAddressError);
  bindings[0] = {bench_.data(), 64};
  EXPECT_THROW(wrapper(context, inputs, outputs_), StaleAddressError);
  context.bindings = {};
  EXPECT_THROW(wrapper(context, inputs, outputs_), StaleAddressError);
}

TEST_F(CudagraphWrapperTest, copied_inputs_may_move) {
  permission_.open();
  CudagraphWrapper wrapper = make(CudagraphRuntimeMode::PIECEWISE, {.copy_inputs = true});
  call(wrapper, CudagraphRuntimeMode::PIECEWISE, 8);
  for (int32_t value : {3, 9}) {
    const device::Buffer elsewhere = device_->allocate(GraphBench::kCount * sizeof(int32_t));
    std::fill_n(static_cast<int32_t*>(elsewhere.data()), GraphBench::kCount, value);
    ForwardContext context = bench_.context(CudagraphRuntimeMode::PIECEWISE, 8);
    const std::array inputs{bench_.tensor_at(elsewhere.data())};
    wrapper(context, inputs, outputs_);
    bench_.stream().synchronize();
    EXPECT_EQ(outputs_[0].data_as<int32_t>()[0], value + 1);
  }
}

TEST(CudagraphWrapperFaults,
     a_capture_that_fails_at_any_call_leaves_the_key_unknown_and_eager_work_going) {
  for (uint64_t k = 1;; ++k) {
    const std::unique_ptr<device::FakeDevice> fake = device::create_fake_device();
    GraphBench bench(*fake);
    CapturePermission permission;
    permission.open();
    CudagraphWrapper wrapper(
        [&](ForwardContext&, std::span<const Tensor>, std::vector<Tensor>& outputs) {
          bench.scale_add(1, 1);
          bench.scale_add(2, 0);
          outputs.clear();
        },
        CudagraphRuntimeMode::FULL,
        *fake,
        permission);
    std::vector<Tensor> outputs;
    ForwardContext context = bench.context(CudagraphRuntimeMode::FULL, 8);
    fake->fail_call(k);
    bool failed = false;
    try {
      wrapper(context, {}, outputs);
    } catch (const device::DeviceError&) {
      failed = true;
    }
    fake->fail_call(0);
    EXPECT_EQ(wrapper.has(context.descriptor), !failed);
    EXPECT_FALSE(bench.stream().is_capturing());
    bench.set_all(1);
    bench.scale_add(3, 0);  // eager work still runs
    EXPECT_EQ(bench.data()[0], 3);
    if (failed) wrapper(context, {}, outputs);  // a capture works too
    wrapper(context, {}, outputs);
    bench.stream().synchronize();
    EXPECT_EQ(bench.data()[0], 8);
    if (!failed) {
      EXPECT_GT(k, 4U) << "begin, two launches, end and instantiate were all to be failed";
      break;
    }
    ASSERT_LT(k, 50U);
  }
}

}  // namespace
}  // namespace reprise::cudagraph
