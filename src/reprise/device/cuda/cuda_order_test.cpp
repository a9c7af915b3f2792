#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/generated_code.h"
#include "reprise/device/discardable_memory.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

// Tests of the order of the host's calls and the GPU's work. The fake driver runs work late, so the
// tests notice memory or code that is released too early.
namespace reprise::device::cuda {
namespace {

constexpr FakeSchedule kLate{0};
constexpr size_t kSomeGranules = size_t{1} << 20;  // a multiple of the fake driver's granularity

struct OrderArgs {
  uint32_t* values;
  uint32_t amount;
};

constexpr Kernel kAddLate{
    .name = "add",
    .cuda = {.image = "no machine code", .function = "add", .threads_per_block = 32}};

void run_add_late(const FakeLaunch& launch) {
  const auto& args = *static_cast<const OrderArgs*>(launch.parameter);
  args.values[0] += args.amount;
}

/// A driver that runs work only when the host waits for it.
class LateDriver : public testing::Test {
 protected:
  LateDriver() {
    driver_.add_kernel("add", {.parameter_bytes = sizeof(OrderArgs), .run = run_add_late});
    device_ = create_cuda_device(driver_.api());
    stream_ = device_->create_stream();
  }
  ~LateDriver() override {
    stream_.reset();
    device_.reset();
    EXPECT_EQ(driver_.misuses(), std::vector<std::string>{});
    EXPECT_EQ(driver_.resources(), FakeResources{});
  }
  static void add(Stream& stream, void* values, uint32_t amount, const Kernel& kernel = kAddLate) {
    const OrderArgs args{static_cast<uint32_t*>(values), amount};
    stream.launch({.kernel = &kernel, .num_blocks = 1, .args = std::as_bytes(std::span(&args, 1))});
  }
  static uint32_t first_of(Stream& stream, const void* values) {
    uint32_t value = 0;
    stream.copy_to_host(&value, values, sizeof value);
    return value;
  }

  FakeDriver driver_{kLate};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(LateDriver, memory_is_unmapped_after_the_work_that_uses_it) {
  {
    const Buffer buffer = device_->allocate(kSomeGranules);
    add(*stream_, buffer.data(), 1);
  }
  stream_->synchronize();
}

TEST_F(LateDriver, discarded_memory_is_unmapped_after_the_work_that_uses_it) {
  const Buffer buffer = device_->allocate(kSomeGranules);
  add(*stream_, buffer.data(), 1);
  discardable_memory(*device_)->discard(buffer.view());
  stream_->synchronize();
  discardable_memory(*device_)->restore(buffer.view());
}

TEST_F(LateDriver, a_pool_is_unmapped_after_the_work_that_uses_it) {
  const auto side = device_->create_stream();
  {
    const auto pool = device_->create_pool();
    const PoolReference block(pool->allocate(kSomeGranules));
    add(*stream_, block.get()->data, 1);
    add(*side, block.get()->data, 1);
  }
  stream_->synchronize();
}

TEST_F(LateDriver, memory_goes_while_another_stream_captures) {
  const auto side = device_->create_stream();
  const Buffer kept = device_->allocate(kSomeGranules);
  {
    const auto pool = device_->create_pool();
    const PoolReference block(pool->allocate(kSomeGranules));
    add(*stream_, block.get()->data, 1);
    side->begin_capture();
    add(*side, kept.data(), 7);
  }
  const auto graph = side->end_capture();
  device_->instantiate(*graph)->launch(*side);
  EXPECT_EQ(first_of(*side, kept.data()), 7U);
}

TEST_F(LateDriver, code_is_unloaded_after_its_launches) {
  driver_.read_images([](const void*) -> FakeImage {
    return [](const std::string&) -> std::optional<FakeKernel> {
      return FakeKernel{.parameter_bytes = sizeof(OrderArgs), .run = run_add_late};
    };
  });
  const Buffer values = device_->allocate(kSomeGranules);
  {
    std::array<std::byte, 64> elf{};
    std::memcpy(elf.data(), "\177ELF", 4);
    elf[40] = std::byte{64};  // the sections' table would begin after the header
    const std::vector<std::string> functions = {"f"};
    const auto loader = create_cubin_loader(*device_, 32);
    const auto code = loader->load(elf, functions);
    add(*stream_, values.data(), 5, code->kernel("f", "f"));
  }
  EXPECT_EQ(first_of(*stream_, values.data()), 5U);
}

TEST_F(LateDriver, uploads_through_staging_memory_keep_what_they_were_given) {
  constexpr size_t kBytes = size_t{11} << 20;  // more than all staging slots
  const Buffer buffer = device_->allocate(kBytes);
  std::vector<uint8_t> source(kBytes);
  for (size_t i = 0; i < kBytes; ++i) source[i] = static_cast<uint8_t>(i / 65536 * 31 + i);
  const std::vector<uint8_t> want = source;
  stream_->copy_from_host(buffer.data(), source.data(), kBytes);
  std::fill(source.begin(), source.end(), uint8_t{0});
  std::vector<uint8_t> got(kBytes);
  stream_->copy_to_host(got.data(), buffer.data(), kBytes);
  EXPECT_TRUE(got == want);
}

TEST_F(LateDriver, a_stream_goes_after_its_uploads) {
  const Buffer values = device_->allocate(kSomeGranules);
  {
    const auto side = device_->create_stream();
    const uint32_t seven = 7;
    side->copy_from_host(values.data(), &seven, sizeof seven);
  }
  EXPECT_EQ(first_of(*stream_, values.data()), 7U);
}

TEST_F(LateDriver, a_stream_waits_for_another_ones_event) {
  const auto side = device_->create_stream();
  const auto event = device_->create_event();
  const Buffer values = device_->allocate(kSomeGranules);
  const Buffer copies = device_->allocate(kSomeGranules);
  EXPECT_TRUE(event->is_complete());
  add(*stream_, values.data(), 3);
  stream_->record(*event);
  add(*stream_, values.data(), 4);
  side->wait(*event);
  side->copy(copies.data(), values.data(), 4);
  EXPECT_EQ(first_of(*side, copies.data()), 3U) << "the event's work and no later work";
  EXPECT_TRUE(event->is_complete());
  EXPECT_EQ(first_of(*stream_, values.data()), 7U);
}

TEST_F(LateDriver, an_event_completes_while_the_host_asks) {
  const auto event = device_->create_event();
  const Buffer values = device_->allocate(kSomeGranules);
  for (uint32_t i = 0; i < 5; ++i) add(*stream_, values.data(), 1);
  stream_->record(*event);
  EXPECT_FALSE(event->is_complete());
  int num_questions = 0;
  while (!event->is_complete()) ASSERT_LT(++num_questions, 100);
  EXPECT_EQ(first_of(*stream_, values.data()), 5U);
}

// The fake itself.

TEST(FakeDriverQueues, work_runs_when_the_host_waits_and_with_a_schedule_also_earlier) {
  constexpr int kSchedules = 40;
  int num_early = 0;
  for (uint64_t schedule = 0; schedule <= kSchedules; ++schedule) {
    FakeDriver driver{FakeSchedule{schedule}};
    int num_runs = 0;
    driver.add_kernel("add",
                      {.parameter_bytes = sizeof(OrderArgs),
                       .run = [&num_runs](const FakeLaunch&) { ++num_runs; }});
    const auto device = create_cuda_device(driver.api());
    const auto stream = device->create_stream();
    const OrderArgs args{};
    for (int i = 0; i < 10; ++i) {
      stream->launch(
          {.kernel = &kAddLate, .num_blocks = 1, .args = std::as_bytes(std::span(&args, 1))});
    }
    if (schedule == 0) {
      EXPECT_EQ(num_runs, 0);
    }
    num_early += num_runs > 0 ? 1 : 0;
    stream->synchronize();
    EXPECT_EQ(num_runs, 10);
  }
  EXPECT_GT(num_early, kSchedules / 4);
  EXPECT_LT(num_early, kSchedules);
}

TEST(FakeDriverQueues, work_on_unmapped_memory_is_reported_and_loses_the_context) {
  FakeDriver driver{kLate};
  driver.add_kernel("add", {.parameter_bytes = sizeof(OrderArgs), .run = run_add_late});
  {
    const auto device = create_cuda_device(driver.api());
    const auto stream = device->create_stream();
    const Buffer buffer = device->allocate(kSomeGranules);
    discardable_memory(*device)->discard(buffer.view());
    const OrderArgs args{static_cast<uint32_t*>(buffer.data()), 1};
    stream->launch(
        {.kernel = &kAddLate, .num_blocks = 1, .args = std::as_bytes(std::span(&args, 1))});
    try {
      stream->synchronize();
      ADD_FAILURE() << "the work ran";
    } catch (const DeviceError& error) {
      EXPECT_TRUE(error.is_sticky()) << error.what();
    }
  }
  EXPECT_EQ(
      driver.misuses(),
      (std::vector<std::string>{"kernel add ran on addresses whose memory had been unmapped"}));
}

TEST(FakeDriverQueues, page_locked_memory_is_read_and_written_when_the_copy_runs) {
  FakeDriver driver{kLate};
  const DriverApi api = driver.api();
  CUstream stream = nullptr;
  CUdeviceptr device = 0;
  void* raw = nullptr;
  ASSERT_EQ(api.stream_create(&stream, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.mem_alloc(&device, 4), CUDA_SUCCESS);
  ASSERT_EQ(api.mem_host_alloc(&raw, 4, 0), CUDA_SUCCESS);
  auto* locked = static_cast<uint32_t*>(raw);
  uint32_t other = 1;
  uint32_t got = 0;
  *locked = 1;
  ASSERT_EQ(api.memcpy_htod_async(device, locked, 4, stream), CUDA_SUCCESS);
  *locked = 2;
  ASSERT_EQ(api.memcpy_dtoh_async(&got, device, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(got, 2U) << "the copy ran after the host had changed its source";
  ASSERT_EQ(api.memcpy_htod_async(device, &other, 4, stream), CUDA_SUCCESS);
  other = 9;
  ASSERT_EQ(api.memcpy_dtoh_async(locked, device, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(*locked, 2U) << "nobody has waited for the copy";
  EXPECT_EQ(api.mem_free_host(locked), CUDA_SUCCESS);
  EXPECT_EQ(driver.misuses(),
            (std::vector<std::string>{"cuMemFreeHost of memory that queued copies use"}));
  ASSERT_EQ(api.memcpy_dtoh_async(&got, device, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(got, 1U) << "other memory of the host is copied before the call returns";
  EXPECT_EQ(driver.bytes_from_host(), 8U);
}

}  // namespace
}  // namespace reprise::device::cuda
