#include "tests/support/fake_device/fake_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace reprise::device {
namespace {

using testing::ElementsAre;

struct AddArgs {
  int* values;
  int amount;
};

void run_add(const void* raw, BlockRange blocks) noexcept {
  const auto& args = *static_cast<const AddArgs*>(raw);
  for (uint32_t i = blocks.begin; i < blocks.end; ++i) args.values[i] += args.amount;
}

constexpr Kernel kAdd{.name = "add_i32", .cpu = run_add};
constexpr uint32_t kCount = 8;

void launch_add(Stream& stream, void* values, int amount) {
  const AddArgs args{static_cast<int*>(values), amount};
  const BufferUse use{values, kCount * sizeof(int), BufferUse::Access::read_write};
  stream.launch({.kernel = &kAdd,
                 .num_blocks = kCount,
                 .args = std::as_bytes(std::span(&args, 1)),
                 .uses = std::span(&use, 1)});
}

int first_value(const Buffer& buffer) { return *static_cast<const int*>(buffer.data()); }

// Uses a device like a wrapper: eager work, capture and replay, with a pool and joined streams.
void run_scenario(Device& device, Stream& stream, void* values) {
  const Buffer scratch = device.allocate(kCount * sizeof(int));
  const auto pool = device.create_pool();
  const auto side = device.create_stream();
  const auto event = device.create_event();
  launch_add(stream, values, 1);
  stream.record(*event);
  event->synchronize();
  std::unique_ptr<GraphExec> exec;
  {
    CaptureScope capture(stream);
    const PoolReference block(pool->allocate(1000));
    stream.fill(block.get()->data, std::byte{0}, 1000);
    launch_add(stream, values, 10);
    stream.record(*event);
    side->wait(*event);
    launch_add(*side, values, 100);
    side->record(*event);
    stream.wait(*event);
    stream.copy(scratch.data(), values, kCount * sizeof(int));
    exec = device.instantiate(*std::move(capture).finish());
  }
  exec->launch(stream);
  exec->launch(stream);
  stream.synchronize();
  std::array<int, kCount> host{};
  stream.copy_from_host(scratch.data(), host.data(), sizeof host);
  stream.copy_to_host(host.data(), values, sizeof host);
}

constexpr int kScenarioSum = 1 + 2 * 110;

TEST(FakeDevice, logs_every_call_by_name) {
  const auto device = create_fake_device();
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(kCount * sizeof(int));
  device->clear_call_log();
  run_scenario(*device, *stream, values.data());
  EXPECT_EQ(first_value(values), kScenarioSum);
  EXPECT_THAT(device->call_log(),
              ElementsAre("allocate",
                          "launch add_i32",
                          "record",
                          "event_synchronize",
                          "begin_capture",
                          "pool_grow",
                          "fill",
                          "launch add_i32",
                          "record",
                          "wait",
                          "launch add_i32",
                          "record",
                          "wait",
                          "copy",
                          "end_capture",
                          "instantiate",
                          "graph_launch",
                          "graph_launch",
                          "synchronize",
                          "copy_from_host",
                          "copy_to_host"));
}

class FakeDeviceFailures : public testing::TestWithParam<DeviceError::Severity> {};

INSTANTIATE_TEST_SUITE_P(Severities,
                         FakeDeviceFailures,
                         testing::Values(DeviceError::Severity::transient,
                                         DeviceError::Severity::sticky));

TEST_P(FakeDeviceFailures, any_call_may_fail_and_the_device_recovers) {
  const auto device = create_fake_device();
  const auto stream = device->create_stream();
  uint64_t k = 1;
  for (bool passed = false; !passed; ++k) {
    ASSERT_LT(k, 100u);
    const Buffer values = device->allocate(kCount * sizeof(int));
    const size_t allocated = device->memory().allocated_here;
    device->fail_call(k, GetParam());
    bool failed = false;
    try {
      run_scenario(*device, *stream, values.data());
    } catch (const DeviceError& error) {
      failed = true;
      // If a capture has lost a call, end_capture throws a CaptureError.
      EXPECT_EQ(error.is_sticky(), GetParam() == DeviceError::Severity::sticky) << k;
    }
    EXPECT_FALSE(stream->is_capturing()) << k;
    EXPECT_EQ(device->memory().allocated_here, allocated) << k;
    passed = !failed && device->num_calls() < k;

    device->fail_call(0);
    stream->fill(values.data(), std::byte{0}, values.bytes());
    run_scenario(*device, *stream, values.data());
    EXPECT_EQ(first_value(values), kScenarioSum) << k;
  }
  EXPECT_GT(k, 20u);
}

TEST(FakeDevice, a_call_that_fails_during_capture_invalidates_it) {
  const auto device = create_fake_device();
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(kCount * sizeof(int));
  device->fail_call(2);
  stream->begin_capture();
  EXPECT_THROW(launch_add(*stream, values.data(), 1), DeviceError);
  EXPECT_TRUE(stream->is_capturing());
  EXPECT_THROW(launch_add(*stream, values.data(), 1), CaptureError);
  EXPECT_THROW((void)stream->end_capture(), CaptureError);
  EXPECT_FALSE(stream->is_capturing());
}

TEST(FakeDevice, a_failing_end_of_capture_leaves_the_stream_idle) {
  const auto device = create_fake_device();
  const auto stream = device->create_stream();
  device->fail_call(2);
  stream->begin_capture();
  EXPECT_THROW((void)stream->end_capture(), DeviceError);
  EXPECT_FALSE(stream->is_capturing());
}

TEST(FakeDevice, every_call_fails_after_a_sticky_failure_until_the_restart) {
  const auto device = create_fake_device();
  device->fail_call(1, DeviceError::Severity::sticky);
  for (int i = 0; i < 3; ++i) EXPECT_THROW((void)device->allocate(1), DeviceError);
  EXPECT_EQ(device->num_calls(), 3u);
  device->fail_call(0);
  EXPECT_NO_THROW((void)device->allocate(1));
}

TEST(FakeDevice, advances_its_clock_by_submissions) {
  const auto device = create_fake_device();
  const auto stream = device->create_stream();
  const Buffer values = device->allocate(kCount * sizeof(int));
  launch_add(*stream, values.data(), 1);
  EXPECT_EQ(device->virtual_time_ns(), 1000u);
  CaptureScope capture(*stream);
  for (int i = 0; i < 5; ++i) launch_add(*stream, values.data(), 1);
  const auto exec = device->instantiate(*std::move(capture).finish());
  EXPECT_EQ(device->virtual_time_ns(), 1000u);
  exec->launch(*stream);
  EXPECT_EQ(device->virtual_time_ns(), 2000u);
}

}  // namespace
}  // namespace reprise::device
