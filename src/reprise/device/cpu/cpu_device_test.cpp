#include "reprise/device/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/device/cpu/cpu_memory.h"
#include "reprise/device/cpu/usable_cores.h"
#include "reprise/device/discardable_memory.h"
#include "reprise/device/graph_node.h"

namespace reprise::device {
namespace {

TEST(CpuDevice, refuses_impossible_options) {
  EXPECT_THROW((void)create_cpu_device({.num_threads = -1}), InvalidArgument);
  EXPECT_THROW((void)create_cpu_device({.num_threads = 1'000'000}), InvalidArgument);
  EXPECT_THROW((void)create_cpu_device({.spin_us = -1}), InvalidArgument);
}

TEST(CpuDevice, describes_the_machine) {
  const auto device = create_cpu_device({.num_threads = 1});
  EXPECT_THAT(device->description(), testing::EndsWith(", 1 thread"));
  EXPECT_TRUE(device->is_host_accessible());
}

TEST(CpuDevice, never_has_more_threads_than_cores_unless_told) {
  const auto device = create_cpu_device({.num_threads = 1000});
  const std::string expected = std::to_string(usable_cores().size()) + " thread";
  EXPECT_NE(device->description().find(expected), std::string::npos) << device->description();
}

TEST(CpuDevice, leaves_the_affinity_of_the_calling_thread_alone) {
  cpu_set_t before;
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const auto device = create_cpu_device();
  const Buffer buffer = device->allocate(1 << 20);
  device->create_stream()->fill(buffer.data(), std::byte{1}, buffer.bytes());
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(CpuDevice, uses_one_thread_when_it_may_use_one_core) {
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(usable_cores().front(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const auto device = create_cpu_device();
    EXPECT_THAT(device->description(), testing::EndsWith(", 1 thread"));
  }).join();
}

// The resident memory of this process, in bytes.
size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(CpuDevice, gives_pages_back_and_keeps_addresses) {
  constexpr size_t kBytes = size_t{64} << 20;
  const auto device = create_cpu_device({.num_threads = 1});
  DiscardableMemory* memory = discardable_memory(*device);
  ASSERT_NE(memory, nullptr);
  for (const size_t bytes : {kBytes, kBytes + 1, size_t{1}, size_t{4097}}) {
    const Buffer neighbour = device->allocate(4096);
    const Buffer buffer = device->allocate(bytes);
    std::memset(neighbour.data(), 7, neighbour.bytes());
    std::memset(buffer.data(), 7, buffer.bytes());
    const size_t before = resident_bytes();
    memory->discard(buffer.view());
    if (bytes >= kBytes) {
      EXPECT_LT(resident_bytes() + kBytes / 2, before);
    }
    memory->restore(buffer.view());
    const std::span contents(static_cast<const char*>(buffer.data()), buffer.bytes());
    EXPECT_TRUE(std::ranges::all_of(contents, [](char c) { return c == 0; }));
    std::memset(buffer.data(), 1, buffer.bytes());
    EXPECT_EQ(*static_cast<const char*>(neighbour.data()), 7);
  }
}

TEST(CpuDevice, refuses_graphs_and_streams_of_another_device_class) {
  class ForeignGraph final : public Graph {
    [[nodiscard]] size_t num_nodes() const noexcept override { return 0; }
    [[nodiscard]] std::vector<GraphNode> nodes() const override { return {}; }
  };
  const auto device = create_cpu_device({.num_threads = 1});
  EXPECT_THROW((void)device->instantiate(ForeignGraph()), DeviceError);
}

TEST(CpuMemory, aligns_large_stretches_to_huge_pages) {
  CpuMemory memory;
  for (const size_t bytes : {size_t{1}, size_t{4097}, size_t{2} << 20, (size_t{4} << 20) + 1}) {
    const BufferView view = memory.acquire(bytes);
    const size_t alignment = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % alignment, 0u);
    EXPECT_EQ(static_cast<std::byte*>(view.data)[bytes - 1], std::byte{0});
    memory.give_back(view);
  }
  EXPECT_EQ(memory.info().allocated_here, 0u);
}

// Each weight would otherwise take up to 2 MiB more than its size.
TEST(CpuMemory, maps_no_more_than_whole_small_pages) {
  CpuMemory memory;
  for (const size_t bytes : {size_t{1}, size_t{4096}, (size_t{4} << 20) + 1}) {
    const BufferView view = memory.acquire(bytes);
    EXPECT_LT(memory.info().allocated_here, bytes + 4096);
    memory.give_back(view);
  }
}

TEST(CpuFeatures, newer_instruction_sets_imply_their_base) {
  const CpuFeatures features = detect_cpu_features();
  EXPECT_EQ(features, detect_cpu_features());
  const auto implies = [](bool extension, bool base) { return !extension || base; };
  EXPECT_TRUE(implies(features.avx2 || features.fma || features.f16c, features.avx));
  EXPECT_TRUE(implies(features.avx512bw || features.avx512vl, features.avx512f));
  EXPECT_TRUE(implies(features.avx512f, features.avx2));
#if defined(__x86_64__)
  // Compare with the compiler's run-time library, which reads CPUID itself.
  EXPECT_EQ(features.avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(features.fma, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(features.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(features.avx512bw, __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(features.avx512_vnni, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(features.avx512_bf16, __builtin_cpu_supports("avx512bf16") != 0);
  EXPECT_EQ(features.has_slow_bf16_pairs,
            features.avx512_bf16 && features.avx512_fp16 && __builtin_cpu_is("intel") != 0);
#endif
}

TEST(CpuFeatures, prints_the_flags_that_are_set) {
  EXPECT_EQ(to_string(CpuFeatures{}), "");
  EXPECT_EQ(to_string(CpuFeatures{.avx2 = true, .fma = true, .amx_bf16 = true}),
            "avx2 fma amx_bf16");
}

}  // namespace
}  // namespace reprise::device
