#include "reprise/device/cpu/memory_limits.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "reprise/device/cpu/cpu_memory.h"

namespace reprise::device {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kMachine = size_t{1} << 40;

/// A fake machine whose limits are in files.
class MemoryLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    sources_ = {.cgroups = root_ / "cgroup", .process = root_ / "process"};
    write("process/status", "VmData: 1024 kB\nVmSize: 2048 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  [[nodiscard]] std::vector<MemoryLimit> limits() const {
    return read_memory_limits(kMachine, sources_);
  }

  fs::path root_;
  MemoryLimitSources sources_;
};

TEST_F(MemoryLimits, there_are_none_without_files) { EXPECT_TRUE(limits().empty()); }

TEST_F(MemoryLimits, of_all_groups_above_the_process_hold_and_clean_file_pages_are_not_in_use) {
  write("process/cgroup", "0::/service/engine\n");
  write("cgroup/service/engine/memory.max", "max\n");
  write("cgroup/service/engine/memory.high", std::to_string(300 * kMiB));
  write("cgroup/service/engine/memory.current", std::to_string(200 * kMiB));
  write("cgroup/service/engine/memory.stat",
        "anon 1\ninactive_file " + std::to_string(30 * kMiB) + "\nactive_file " +
            std::to_string(20 * kMiB) + "\n");
  write("cgroup/service/memory.max", std::to_string(500 * kMiB));
  write("cgroup/service/memory.current", std::to_string(450 * kMiB));
  const std::vector<MemoryLimit> found = limits();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].name.find("memory.high of "), std::string::npos) << found[0].name;
  EXPECT_EQ(found[0].bytes, 300 * kMiB);
  EXPECT_EQ(found[0].used, 150 * kMiB);
  EXPECT_EQ(found[1].bytes, 500 * kMiB);
  EXPECT_EQ(found[1].used, 450 * kMiB);
  EXPECT_FALSE(found[1].counts_untouched);
}

TEST_F(MemoryLimits, in_a_container_are_those_of_the_root_whatever_path_the_process_has) {
  write("process/cgroup", "0::/kubepods/pod7/other\n");
  write("cgroup/memory.max", std::to_string(64 * kMiB));
  const std::vector<MemoryLimit> found = limits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].bytes, 64 * kMiB);
}

TEST_F(MemoryLimits, of_version_1_are_found_and_its_largest_number_is_no_limit) {
  write("process/cgroup", "8:cpu,cpuacct:/a\n4:memory:/b\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("cgroup/memory/b/memory.limit_in_bytes", std::to_string(96 * kMiB));
  write("cgroup/memory/b/memory.usage_in_bytes", std::to_string(90 * kMiB));
  write("cgroup/memory/b/memory.stat",
        "cache 7\ntotal_inactive_file " + std::to_string(40 * kMiB) + "\n");
  const std::vector<MemoryLimit> found = limits();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].bytes, 96 * kMiB);
  EXPECT_EQ(found[0].used, 50 * kMiB);
}

TEST(CpuMemory, counts_memory_that_is_promised_as_not_free_and_addresses_as_nothing) {
  CpuMemory memory;
  constexpr size_t kBytes = 512 * kMiB;
  const MemoryInfo before = memory.info();
  const BufferView addresses = memory.reserve(kBytes);
  EXPECT_EQ(memory.info().allocated_here, 0U);
  memory.commit(addresses, 0, kBytes / 2);
  const MemoryInfo promised = memory.info();
  EXPECT_EQ(promised.allocated_here, kBytes / 2);
  // Other processes change the free memory too, so the bound is loose.
  EXPECT_LT(promised.free, before.free - kBytes / 4);
  static_cast<char*>(addresses.data)[kBytes / 2 - 1] = 1;
  memory.give_back(addresses);
  EXPECT_EQ(memory.info().allocated_here, 0U);
}

TEST(CpuMemoryDeathTest, addresses_without_memory_are_not_accessible) {
  CpuMemory memory;
  const BufferView addresses = memory.reserve(8 * kMiB);
  memory.commit(addresses, 0, 4096);
  auto* const bytes = static_cast<volatile char*>(addresses.data);
  EXPECT_EQ(bytes[4095], 0);
  EXPECT_DEATH(bytes[4096] = 1, "");
  memory.give_back(addresses);
}

}  // namespace
}  // namespace reprise::device
