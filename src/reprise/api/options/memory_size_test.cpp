#include "reprise/api/options/memory_size.h"

#include <gtest/gtest.h>

#include <string>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

/// A GPU of 1000 MiB of which so much is in use.
device::MemoryInfo gpu_with(int64_t used_mib) {
  return {.total = static_cast<size_t>(1000 * kMiB),
          .free = static_cast<size_t>((1000 - used_mib) * kMiB)};
}

EngineArgs utilization(double part) {
  EngineArgs args;
  args.gpu_memory_utilization = part;
  return args;
}

template <typename Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "(not refused)";
}

TEST(CacheMemory, is_what_measured_use_leaves_of_the_budget) {
  // 300 MiB are in use, of which caches have 20 already.
  for (const double part : {0.5, 0.9, 0.97, 0.98, 0.99, 1.0}) {
    const CacheMemory memory =
        cache_memory(utilization(part), gpu_with(300), DeviceMemory::gpu, 20 * kMiB);
    EXPECT_NEAR(static_cast<double>(memory.bytes) / kMiB, part * 1000 - 280, 0.01) << part;
  }
}

TEST(CacheMemory, is_refused_when_steps_and_graphs_have_taken_all_and_never_negative) {
  for (const int64_t used : {900, 901, 999, 1000}) {
    const std::string text = refusal(
        [&] { (void)cache_memory(utilization(0.9), gpu_with(used), DeviceMemory::gpu, 0); });
    EXPECT_NE(text.find("nothing is left for the KV cache"), std::string::npos) << text;
    EXPECT_NE(text.find("--max-num-batched-tokens"), std::string::npos) << text;
  }
  EXPECT_EQ(cache_memory(utilization(0.9), gpu_with(899), DeviceMemory::gpu, 0).bytes, kMiB);
}

TEST(CacheMemory, of_given_size_must_fit_beside_what_is_in_use_whatever_the_budget_is) {
  EngineArgs args = utilization(0.1);
  args.kv_cache_memory_bytes = 100 * kMiB;
  EXPECT_EQ(cache_memory(args, gpu_with(900), DeviceMemory::gpu, 0).bytes, 100 * kMiB);
  const std::string text =
      refusal([&] { (void)cache_memory(args, gpu_with(901), DeviceMemory::gpu, 0); });
  EXPECT_NE(text.find("--kv-cache-memory-bytes: 100.00 MiB do not fit"), std::string::npos) << text;
}

TEST(CacheMemory, of_a_host_leaves_memory_for_threads_and_requests) {
  const MemoryBudget budget = memory_budget(utilization(1), gpu_with(0), DeviceMemory::host);
  EXPECT_EQ(budget.bytes, 936 * kMiB);
  EXPECT_EQ(memory_budget(utilization(0.5), gpu_with(0), DeviceMemory::host).bytes, 500 * kMiB);
}

TEST(KvCacheSize, is_the_largest_whose_rounded_bytes_fit) {
  const kv_cache::KvCacheLayout layout{.num_layers = 1, .num_kv_heads = 1, .head_dim = 64};
  EngineArgs args;
  args.max_num_seqs = 64;
  // Blocks in granules of 7.
  const BytesOfBlocks bytes_of = [](int64_t num_blocks) { return (num_blocks + 6) / 7 * 7000; };
  for (const int64_t bytes : {14000, 20999, 21000, 700000}) {
    const KvCacheSize size = size_kv_cache(args, layout, 160, {.bytes = bytes}, bytes_of);
    EXPECT_LE(bytes_of(size.num_blocks), bytes);
    EXPECT_TRUE(size.num_blocks == 64 * 10 + 1 || bytes_of(size.num_blocks + 1) > bytes);
    EXPECT_TRUE(size.depends_on_memory);
  }
  args.num_gpu_blocks_override = 100;
  const std::string text = refusal(
      [&] { (void)size_kv_cache(args, layout, 160, {.bytes = 1, .free = 100000}, bytes_of); });
  EXPECT_FALSE(
      size_kv_cache(args, layout, 160, {.bytes = 1, .free = 105000}, bytes_of).depends_on_memory);
  EXPECT_NE(text.find("--num-gpu-blocks-override: 100 blocks take"), std::string::npos) << text;
}

}  // namespace
}  // namespace reprise::api
