#include "reprise/device/cpu/cpu_topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/worker_placement.h"
#include "reprise/device/placed_memory.h"

namespace reprise::device {
namespace {

namespace fs = std::filesystem;

/// A folder that looks like /sys of a machine.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string pattern = (fs::temp_directory_path() / "topology_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;
  ~FakeSysfs() { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    const fs::path path = root_ / "devices/system" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// Nodes by their lists of CPUs. `siblings`: CPU i and CPU i + `siblings` share a core; 0: none.
  void describe(const std::string& online,
                const std::vector<std::string>& nodes,
                const std::string& has_memory,
                int siblings = 0) {
    write("cpu/online", online + "\n");
    write("node/online", nodes.size() == 1 ? "0\n" : fmt::format("0-{}\n", nodes.size() - 1));
    write("node/has_memory", has_memory + "\n");
    for (size_t node = 0; node < nodes.size(); ++node) {
      write(fmt::format("node/node{}/cpulist", node), nodes[node] + "\n");
    }
    for (int cpu = 0; cpu < 12; ++cpu) {
      const int core = siblings == 0 ? cpu : cpu % siblings;
      write(
          fmt::format("cpu/cpu{}/topology/thread_siblings_list", cpu),
          siblings == 0 ? fmt::format("{}\n", cpu) : fmt::format("{},{}\n", core, core + siblings));
    }
  }
  [[nodiscard]] const fs::path& root() const noexcept { return root_; }

 private:
  fs::path root_;
};

std::vector<int> cpus_to(int count) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < count; ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::vector<int> numbers_of(const std::vector<LogicalCpu>& cpus) {
  std::vector<int> numbers;
  for (const LogicalCpu& cpu : cpus) numbers.push_back(cpu.number);
  return numbers;
}

std::vector<int> nodes_of(const std::vector<LogicalCpu>& cpus) {
  std::vector<int> nodes;
  for (const LogicalCpu& cpu : cpus) nodes.push_back(cpu.node);
  return nodes;
}

WorkerPlacement place(const CpuTopology& topology,
                      std::string_view binding,
                      int num_threads = 0,
                      int rank = 0,
                      int num_ranks = 1) {
  return place_workers(topology, *parse_thread_binding(binding), num_threads, rank, num_ranks);
}

using Numbers = std::vector<int>;
constexpr size_t kPage = 4096;

TEST(CpuList, is_read_as_linux_writes_it) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11"), (Numbers{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("5"), Numbers{5});
  EXPECT_EQ(parse_cpu_list(""), Numbers{});
  EXPECT_EQ(parse_cpu_list("8191"), Numbers{8191});
  for (const char* wrong :
       {",", "1,", "a", "1-", "-1", "3-1", "0-8192", "1 2", "0-9999999999", "1--2", "0x3", "1;2"}) {
    EXPECT_EQ(parse_cpu_list(wrong), std::nullopt) << wrong;
  }
}

TEST(CpuTopologyFiles, one_node_has_nothing_to_place) {
  FakeSysfs sysfs;
  sysfs.describe("0-3", {"0-3"}, "0");
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(4));
  EXPECT_EQ(numbers_of(topology.cpus), cpus_to(4));
  EXPECT_EQ(topology.remark, "");
  EXPECT_FALSE(topology.has_several_nodes());
  EXPECT_TRUE(place(topology, "auto").slices_of(1 << 20, kPage).empty());
}

TEST(CpuTopologyFiles, two_nodes_with_interleaved_numbers_are_put_in_order) {
  FakeSysfs sysfs;
  sysfs.describe("0-7", {"0,2,4,6", "1,3,5,7"}, "0-1");
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(8));
  EXPECT_TRUE(topology.has_several_nodes());
  const WorkerPlacement placement = place(topology, "auto");
  EXPECT_EQ(numbers_of(placement.workers), (Numbers{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(placement.slices_of(16 * kPage, kPage),
            (std::vector<NodeSlice>{{0, 8 * kPage, 0}, {8 * kPage, 16 * kPage, 1}}));
  EXPECT_EQ(numbers_of(place(topology, "").workers), cpus_to(8)) << "as before, without binding";
}

TEST(CpuTopologyFiles, four_nodes_with_different_numbers_of_cores_get_memory_by_their_workers) {
  FakeSysfs sysfs;
  sysfs.describe("0-9", {"0-3", "4", "5-7", "8-9"}, "0-3");
  const WorkerPlacement placement = place(read_cpu_topology(sysfs.root(), cpus_to(10)), "auto");
  EXPECT_EQ(nodes_of(placement.workers), (Numbers{0, 0, 0, 0, 1, 2, 2, 2, 3, 3}));
  EXPECT_EQ(placement.slices_of(100 * kPage, kPage),
            (std::vector<NodeSlice>{{0, 40 * kPage, 0},
                                    {40 * kPage, 50 * kPage, 1},
                                    {50 * kPage, 80 * kPage, 2},
                                    {80 * kPage, 100 * kPage, 3}}));
}

TEST(CpuTopologyFiles, workers_of_a_node_without_memory_use_that_of_their_neighbours) {
  FakeSysfs sysfs;
  sysfs.describe("0-5", {"0-1", "2-3", "4-5"}, "0,2");
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(6));
  EXPECT_EQ(topology.memory_nodes, (Numbers{0, 2}));
  EXPECT_EQ(place(topology, "auto").slices_of(60 * kPage, kPage),
            (std::vector<NodeSlice>{{0, 40 * kPage, 0}, {40 * kPage, 60 * kPage, 2}}));
  sysfs.describe("0-5", {"0-1", "2-3", "4-5"}, "1-2");
  EXPECT_EQ(place(read_cpu_topology(sysfs.root(), cpus_to(6)), "auto").slices_of(60 * kPage, kPage),
            (std::vector<NodeSlice>{{0, 40 * kPage, 1}, {40 * kPage, 60 * kPage, 2}}));
  sysfs.describe("0-5", {"0-1", "2-3", "4-5"}, "1");
  EXPECT_TRUE(place(read_cpu_topology(sysfs.root(), cpus_to(6)), "auto")
                  .slices_of(60 * kPage, kPage)
                  .empty());
}

TEST(CpuTopologyFiles, a_core_with_two_threads_gets_one_worker) {
  FakeSysfs sysfs;
  sysfs.describe("0-7", {"0-1,4-5", "2-3,6-7"}, "0-1", 4);
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(8));
  EXPECT_EQ(numbers_of(place(topology, "auto").workers), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(numbers_of(place(topology, "").workers), cpus_to(8));
  // The process may not use CPU 1, so the other thread of that core counts as a core of its own.
  const CpuTopology restricted = read_cpu_topology(sysfs.root(), {0, 4, 5, 6});
  EXPECT_EQ(numbers_of(place(restricted, "auto").workers), (Numbers{0, 5, 6}));
}

TEST(CpuTopologyFiles, offline_and_forbidden_cpus_get_no_worker) {
  FakeSysfs sysfs;
  sysfs.describe("0-1,3-5", {"0-2", "3-5"}, "0-1");
  EXPECT_EQ(numbers_of(read_cpu_topology(sysfs.root(), cpus_to(6)).cpus), (Numbers{0, 1, 3, 4, 5}));
  const CpuTopology cpuset = read_cpu_topology(sysfs.root(), {4, 5});
  EXPECT_EQ(numbers_of(cpuset.cpus), (Numbers{4, 5}));
  EXPECT_FALSE(cpuset.has_several_nodes());
}

TEST(CpuTopologyFiles, missing_and_malformed_files_mean_one_node) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"node/online", "zero\n"},
      {"node/online", "0-99999\n"},
      {"node/online", "0-5\n"},
      {"node/node1/cpulist", "2-"},
      {"node/node1/cpulist", "0-3"},
      {"node/node1/cpulist", "\n"},
      {"node/node1/cpulist", std::string(100'000, '1')}};
  for (const auto& [name, text] : wrong) {
    SCOPED_TRACE(name + ": " + text.substr(0, 20));
    FakeSysfs sysfs;
    sysfs.describe("0-3", {"0-1", "2-3"}, "0-1");
    EXPECT_TRUE(read_cpu_topology(sysfs.root(), cpus_to(4)).has_several_nodes());
    sysfs.write(name, text);
    const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(4));
    EXPECT_EQ(numbers_of(topology.cpus), cpus_to(4));
    EXPECT_EQ(nodes_of(topology.cpus), (Numbers{0, 0, 0, 0}));
    EXPECT_NE(topology.remark, "");
  }
  const CpuTopology nothing = read_cpu_topology("/nowhere", {3, 5});
  EXPECT_EQ(numbers_of(nothing.cpus), (Numbers{3, 5}));
  EXPECT_NE(nothing.remark, "");
}

TEST(CpuTopologyFiles, random_bytes_give_every_usable_cpu_or_a_part_of_them) {
  std::mt19937 random(1);
  const std::string letters = "0123456789,-\n |x";
  for (int i = 0; i < 100; ++i) {
    FakeSysfs sysfs;
    sysfs.describe("0-3", {"0-1", "2-3"}, "0-1");
    for (const char* name : {"cpu/online",
                             "node/online",
                             "node/has_memory",
                             "node/node0/cpulist",
                             "cpu/cpu1/topology/thread_siblings_list"}) {
      if (random() % 2 == 0) continue;
      std::string text;
      for (size_t length = random() % 8; length > 0; --length)
        text += letters[random() % letters.size()];
      sysfs.write(name, text);
    }
    const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(4));
    EXPECT_FALSE(topology.cpus.empty());
    EXPECT_LE(topology.cpus.size(), 4u);
    const WorkerPlacement placement = place(topology, "auto");
    EXPECT_FALSE(placement.workers.empty());
  }
}

TEST(ThreadBinding, is_written_as_for_vllm) {
  EXPECT_EQ(parse_thread_binding("")->kind, ThreadBinding::Kind::usable);
  EXPECT_EQ(parse_thread_binding("auto")->kind, ThreadBinding::Kind::by_core);
  EXPECT_EQ(parse_thread_binding("nobind")->kind, ThreadBinding::Kind::none);
  EXPECT_EQ(parse_thread_binding("0-1,4|6-7")->cpus, (std::vector<Numbers>{{0, 1, 4}, {6, 7}}));
  for (const char* wrong : {"all", "|", "0|", "|0", "0-1|x", "AUTO"}) {
    EXPECT_EQ(parse_thread_binding(wrong), std::nullopt) << wrong;
  }
}

TEST(ThreadBinding, gives_ranks_their_own_cpus) {
  FakeSysfs sysfs;
  sysfs.describe("0-7", {"0,2,4,6", "1,3,5,7"}, "0-1");
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(8));
  EXPECT_EQ(numbers_of(place(topology, "auto", 0, 0, 2).workers), (Numbers{0, 2, 4, 6}));
  EXPECT_EQ(numbers_of(place(topology, "auto", 0, 1, 2).workers), (Numbers{1, 3, 5, 7}));
  EXPECT_EQ(numbers_of(place(topology, "0-1|6,7", 0, 1, 2).workers), (Numbers{6, 7}));
  EXPECT_EQ(numbers_of(place(topology, "0-3", 2).workers), (Numbers{0, 2}));
  for (int rank = 0; rank < 20; ++rank) {
    EXPECT_EQ(place(topology, "auto", 0, rank, 20).workers.size(), 1u) << rank;
  }
  EXPECT_THROW((void)place(topology, "0-1", 0, 1, 2), InvalidArgument);
  EXPECT_THROW((void)place(topology, "0,8"), InvalidArgument);
}

TEST(WorkerPlacement, slices_cover_every_byte_once_and_agree_with_the_shares_of_workers) {
  FakeSysfs sysfs;
  sysfs.describe("0-9", {"0-3", "4", "5-7", "8-9"}, "0-3");
  const CpuTopology topology = read_cpu_topology(sysfs.root(), cpus_to(10));
  for (const size_t bytes :
       {size_t{1}, kPage, 3 * kPage + 5, size_t{1'000'003}, size_t{50'000'000}}) {
    const WorkerPlacement placement = place(topology, "auto");
    size_t end = 0;
    for (const NodeSlice& slice : placement.slices_of(bytes, kPage)) {
      EXPECT_EQ(slice.begin, end);
      EXPECT_LT(slice.begin, slice.end);
      EXPECT_TRUE(slice.begin % kPage == 0);
      end = slice.end;
    }
    EXPECT_EQ(end, bytes);
  }
  EXPECT_TRUE(place(topology, "nobind").slices_of(1 << 20, kPage).empty());
  EXPECT_TRUE(place(topology, "0-3").slices_of(1 << 20, kPage).empty());
}

/// The node that the system was asked to prefer for a page; -1: none.
int preferred_node(const void* page) {
  constexpr int kOfAddress = 2;  // MPOL_F_ADDR
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  int mode = 0;
  std::array<uint64_t, 16> mask{};
  if (syscall(SYS_get_mempolicy, &mode, mask.data(), 1024, page, kOfAddress) != 0) return -1;
  return mode == kPreferred && mask[0] != 0 ? std::countr_zero(mask[0]) : -1;
}

TEST(PlacedMemory, asks_for_the_node_of_each_slice_that_this_machine_has) {
  // Worker 1 is on a node that this machine does not have. That may cost speed and nothing else.
  const WorkerPlacement placement{.workers = {{.number = 0, .node = 0}, {.number = 0, .node = 700}},
                                  .is_bound = false,
                                  .places_memory = true,
                                  .memory_nodes = {0, 700}};
  const std::unique_ptr<Device> device = create_cpu_device({.placement = placement});
  const Buffer buffer = device->allocate(8 * kPage);
  auto* bytes = static_cast<std::byte*>(buffer.data());
  placed_memory(*device)->spread_over_workers(buffer.view());
  std::fill_n(bytes, buffer.bytes(), std::byte{5});
  EXPECT_EQ(bytes[8 * kPage - 1], std::byte{5});
  if (!fs::exists("/sys/devices/system/node/node0") || preferred_node(bytes) < 0) {
    GTEST_SKIP() << "this system has no policies of memory";
  }
  EXPECT_EQ(preferred_node(bytes), 0);
  EXPECT_EQ(preferred_node(bytes + 3 * kPage), 0);
  EXPECT_EQ(preferred_node(bytes + 4 * kPage), -1);
}

}  // namespace
}  // namespace reprise::device
