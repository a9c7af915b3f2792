#include "reprise/device/cuda/cuda_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/device/reservable_memory.h"
#include "tests/support/fake_cuda/fake_driver_fixture.h"

// Tests of addresses, of the driver's resources and of failing calls, which the conformance suite
// cannot see.
namespace reprise::device::cuda {
namespace {

constexpr size_t kGranule = size_t{16} << 10;  // the granularity of the fake driver
constexpr size_t kLarge = 64 * kGranule;

class CudaMemoryOverFake : public testing::Test {
 protected:
  ~CudaMemoryOverFake() override {
    EXPECT_EQ(driver_.misuses(), std::vector<std::string>{});
    EXPECT_EQ(driver_.resources(), FakeResources{});
  }
  [[nodiscard]] std::unique_ptr<Device> create() const { return create_cuda_device(driver_.api()); }

  FakeDriver driver_;
};

std::vector<uint8_t> contents(Stream& stream, const Buffer& buffer) {
  std::vector<uint8_t> bytes(buffer.bytes());
  stream.copy_to_host(bytes.data(), buffer.data(), bytes.size());
  return bytes;
}

TEST_F(CudaMemoryOverFake, discarding_gives_to_the_gpu_what_restoring_takes) {
  const auto device = create();
  DiscardableMemory* memory = discardable_memory(*device);
  ASSERT_NE(memory, nullptr);
  const auto stream = device->create_stream();
  const Buffer large = device->allocate(kLarge - 5);
  const Buffer small = device->allocate(kGranule / 2);
  stream->fill(large.data(), std::byte{7}, large.bytes());
  stream->fill(small.data(), std::byte{7}, small.bytes());
  const MemoryInfo before = device->memory();
  memory->discard(large.view());
  memory->discard(small.view());
  const MemoryInfo asleep = device->memory();
  EXPECT_EQ(asleep.free - before.free, kLarge) << "what is smaller than a granule stays";
  EXPECT_EQ(before.allocated_here - asleep.allocated_here, kLarge);
  memory->restore(small.view());
  memory->restore(large.view());
  EXPECT_EQ(device->memory().free, before.free);
  EXPECT_EQ(device->memory().allocated_here, before.allocated_here);
  EXPECT_EQ(contents(*stream, large), std::vector<uint8_t>(large.bytes(), 0));
}

TEST_F(CudaMemoryOverFake, rounding_up_to_granules_wastes_at_most_an_eighth) {
  const auto device = create();
  for (const size_t bytes : {size_t{1},
                             kGranule / 2,
                             kGranule - kGranule / 8,
                             kGranule,
                             kGranule + 1,
                             2 * kGranule - 7,
                             8 * kGranule + 1,
                             kLarge}) {
    const size_t before = device->memory().allocated_here;
    const Buffer buffer = device->allocate(bytes);
    const size_t taken = device->memory().allocated_here - before;
    EXPECT_GE(taken, bytes);
    EXPECT_LE(taken, bytes + std::max<size_t>(bytes / 8, 4096)) << bytes;
  }
}

TEST_F(CudaMemoryOverFake, reserved_addresses_get_memory_part_by_part_and_sleep_with_it) {
  const auto device = create();
  ReservableMemory* memory = reservable_memory(*device);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->granularity(), kGranule);
  const auto stream = device->create_stream();
  const size_t before = device->memory().allocated_here;
  const Buffer buffer = memory->reserve(kLarge);
  EXPECT_EQ(device->memory().allocated_here, before);
  memory->commit(buffer.view(), 0, kGranule);
  memory->commit(buffer.view(), 4 * kGranule, 2 * kGranule);
  EXPECT_EQ(device->memory().allocated_here, before + 3 * kGranule);
  auto* const data = static_cast<std::byte*>(buffer.data());
  stream->fill(data, std::byte{7}, kGranule);
  stream->fill(data + 4 * kGranule, std::byte{7}, 2 * kGranule);
  discardable_memory(*device)->discard(buffer.view());
  EXPECT_EQ(device->memory().allocated_here, before);
  discardable_memory(*device)->restore(buffer.view());
  EXPECT_EQ(device->memory().allocated_here, before + 3 * kGranule);
  std::vector<uint8_t> bytes(2 * kGranule, 1);
  stream->copy_to_host(bytes.data(), data + 4 * kGranule, bytes.size());
  EXPECT_EQ(bytes, std::vector<uint8_t>(bytes.size(), 0));
}

TEST_F(CudaMemoryOverFake, any_failing_call_of_a_commit_leaves_the_part_without_memory) {
  uint64_t k = 1;
  for (;; ++k) {
    const auto device = create();
    ReservableMemory* memory = reservable_memory(*device);
    const Buffer buffer = memory->reserve(kLarge);
    const size_t before = device->memory().allocated_here;
    driver_.fail_call(k, CUDA_ERROR_OUT_OF_MEMORY);
    bool has_thrown = false;
    try {
      memory->commit(buffer.view(), kGranule, kGranule);
    } catch (const Error&) {
      has_thrown = true;
    }
    const std::string failed = driver_.failed_call();
    driver_.fail_call(0);
    if (failed.empty()) break;
    EXPECT_EQ(device->memory().allocated_here, before + (has_thrown ? 0 : kGranule)) << failed;
    if (has_thrown) memory->commit(buffer.view(), kGranule, kGranule);
  }
  EXPECT_GT(k, 4U);
}

TEST_F(CudaMemoryOverFake, any_failing_call_leaves_memory_discarded_or_restored_and_leaks_nothing) {
  for (const CUresult error : {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_OUT_OF_MEMORY}) {
    uint64_t k = 1;
    for (;; ++k) {
      const auto device = create();
      DiscardableMemory* memory = discardable_memory(*device);
      const auto stream = device->create_stream();
      const Buffer buffer = device->allocate(kLarge);
      const MemoryInfo before = device->memory();
      driver_.fail_call(k, error);
      memory->discard(buffer.view());
      bool has_thrown = false;
      try {
        memory->restore(buffer.view());
      } catch (const Error& thrown) {
        has_thrown = true;
        EXPECT_EQ(dynamic_cast<const OutOfMemory*>(&thrown) != nullptr,
                  error == CUDA_ERROR_OUT_OF_MEMORY)
            << thrown.what();
      }
      const std::string failed = driver_.failed_call();
      driver_.fail_call(0);
      if (failed.empty()) break;  // the calls under test make fewer than k driver calls
      // An error from cuMemUnmap, or from the wait before it, concerns earlier work, so discard()
      // ignores it. An error from the wait for zeroing new memory is not ignored.
      if (failed != "cuStreamSynchronize") {
        EXPECT_EQ(has_thrown, failed != "cuMemUnmap" && failed != "cuStreamIsCapturing") << failed;
      }
      const MemoryInfo after = device->memory();
      EXPECT_EQ(after.free - before.free, has_thrown ? kLarge : 0) << failed;
      EXPECT_EQ(before.allocated_here - after.allocated_here, has_thrown ? kLarge : 0) << failed;
      memory->restore(buffer.view());
      EXPECT_EQ(contents(*stream, buffer), std::vector<uint8_t>(buffer.bytes(), 0)) << failed;
    }
    EXPECT_GT(k, 6U);
  }
}

TEST_F(CudaMemoryOverFake, more_than_the_gpu_has_is_out_of_memory) {
  for (const bool has_virtual_memory : {true, false}) {
    driver_.set_virtual_memory(has_virtual_memory);
    const auto device = create();
    for (const size_t bytes : {size_t{1} << 50, size_t{1} << 63, ~size_t{0}}) {
      EXPECT_THROW((void)device->allocate(bytes), OutOfMemory) << bytes;
    }
    EXPECT_NO_THROW((void)device->allocate(kLarge));
  }
}

TEST_F(CudaMemoryOverFake, a_gpu_without_virtual_memory_has_plain_allocations) {
  driver_.set_virtual_memory(false);
  const auto device = create();
  EXPECT_EQ(discardable_memory(*device), nullptr);
  const Buffer buffer = device->allocate(kLarge);
  const auto pool = device->create_pool();
  const PoolReference block(pool->allocate(kLarge));
  EXPECT_EQ(driver_.resources().reservations, 0U);
  EXPECT_EQ(driver_.resources().allocations, 2U);
}

TEST_F(CudaMemoryOverFake, a_pool_grows_in_place_also_inside_a_capture) {
  const auto device = create();
  const auto stream = device->create_stream();
  const auto pool = device->create_pool();
  EXPECT_EQ(driver_.resources().reservations, 0U)
      << "a pool that nobody uses has not even addresses";
  const PoolReference first(pool->allocate(size_t{1} << 20));
  const auto end_of = [](const PoolReference& block) {
    return static_cast<std::byte*>(block.get()->data) + block.get()->bytes;
  };
  PoolReference second;
  PoolReference third;
  {
    CaptureScope capture(*stream);
    second = PoolReference(pool->allocate(size_t{40} << 20));
    stream->fill(second.get()->data, std::byte{3}, second.get()->bytes);
    third = PoolReference(pool->allocate(size_t{50} << 20));
    const auto exec = device->instantiate(*std::move(capture).finish());
    exec->launch(*stream);
    stream->synchronize();
  }
  EXPECT_EQ(second.get()->data, end_of(first));
  EXPECT_EQ(third.get()->data, end_of(second));
  EXPECT_EQ(driver_.resources().reservations, 1U);
  uint8_t last = 0;
  stream->copy_to_host(&last, end_of(second) - 1, 1);
  EXPECT_EQ(last, 3);
}

TEST(FakeDriver, memory_that_is_not_there_is_nobodys) {
  FakeDriver driver;
  {
    const auto device = create_cuda_device(driver.api());
    DiscardableMemory* memory = discardable_memory(*device);
    const auto stream = device->create_stream();
    const Buffer buffer = device->allocate(kLarge);
    EXPECT_TRUE(driver.owns(buffer.data(), kLarge));
    EXPECT_FALSE(driver.owns(buffer.data(), kLarge + 1));
    memory->discard(buffer.view());
    EXPECT_FALSE(driver.owns(buffer.data(), 1));
    EXPECT_THROW(stream->fill(buffer.data(), std::byte{1}, 1), DeviceError);
  }
  EXPECT_EQ(driver.misuses().size(), 1U);
}

// Each of these calls is wrong, and the driver must refuse it.
TEST(FakeDriver, refuses_what_virtual_memory_cannot_be_asked_for) {
  FakeDriver driver;
  const DriverApi api = driver.api();
  const CUmemAllocationProp here{.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  const CUmemAccessDesc access{.location = here.location,
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr base = 0;
  EXPECT_NE(api.mem_address_reserve(&base, kGranule + 1, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.mem_address_reserve(&base, 4 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_NE(api.mem_create(&handle, kGranule / 2, &here, 0), CUDA_SUCCESS);
  ASSERT_EQ(api.mem_create(&handle, 2 * kGranule, &here, 0), CUDA_SUCCESS);
  EXPECT_NE(api.mem_map(base, kGranule, 0, handle, 0), CUDA_SUCCESS) << "half of it";
  EXPECT_NE(api.mem_map(base + 1, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS) << "between granules";
  EXPECT_NE(api.mem_map(base + 3 * kGranule, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS)
      << "half out";
  EXPECT_NE(api.mem_unmap(base, 2 * kGranule), CUDA_SUCCESS) << "not mapped";
  ASSERT_EQ(api.mem_map(base, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_NE(api.mem_map(base + kGranule, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS) << "twice";
  EXPECT_FALSE(driver.owns(reinterpret_cast<void*>(base), 1)) << "not accessible yet";
  EXPECT_NE(api.mem_set_access(base, kGranule, &access, 1), CUDA_SUCCESS) << "of half a mapping";
  ASSERT_EQ(api.mem_set_access(base, 2 * kGranule, &access, 1), CUDA_SUCCESS);
  EXPECT_TRUE(driver.owns(reinterpret_cast<void*>(base), 2 * kGranule));
  ASSERT_EQ(api.mem_release(handle), CUDA_SUCCESS);
  EXPECT_NE(api.mem_release(handle), CUDA_SUCCESS) << "twice";
  EXPECT_NE(api.mem_map(base + 2 * kGranule, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS)
      << "released";
  EXPECT_NE(api.mem_unmap(base, kGranule), CUDA_SUCCESS) << "half of it";
  EXPECT_NE(api.mem_address_free(base, 4 * kGranule), CUDA_SUCCESS) << "mapped";
  ASSERT_EQ(api.mem_unmap(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_NE(api.mem_address_free(base, 2 * kGranule), CUDA_SUCCESS) << "half of it";
  ASSERT_EQ(api.mem_address_free(base, 4 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(driver.resources(), FakeResources{});
}

}  // namespace
}  // namespace reprise::device::cuda
