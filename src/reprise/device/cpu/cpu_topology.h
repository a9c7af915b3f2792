#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::device {

/// One logical CPU.
struct LogicalCpu {
  int number = 0;           // as Linux counts
  int node = 0;             // NUMA node; 0 where Linux names none
  bool is_sibling = false;  // another usable CPU with a lower number is on the same physical core

  friend bool operator==(const LogicalCpu&, const LogicalCpu&) = default;
};

/// The CPUs that a process may use, and their NUMA nodes.
struct CpuTopology {
  std::vector<LogicalCpu> cpus;   // by node, then by number
  std::vector<int> memory_nodes;  // the nodes with memory, in ascending order
  std::string remark;             // what could not be read; empty: everything was read

  /// Whether the CPUs are on more than one node with memory.
  [[nodiscard]] bool has_several_nodes() const;

  friend bool operator==(const CpuTopology&, const CpuTopology&) = default;
};

/// The numbers of a list as Linux writes it, "0-3,8,10-11", in ascending order; nothing: it is
/// malformed, or a number is above the limit of Linux (8191). An empty list is valid.
[[nodiscard]] std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

/// Reads the nodes of `usable` CPUs (ascending) from files below `sysfs` ("/sys"). CPUs that are
/// offline there are left out. Where files are missing or malformed, the CPUs are on node 0, no CPU
/// is a sibling, and `remark` says why. Never empty if `usable` is not.
[[nodiscard]] CpuTopology read_cpu_topology(const std::filesystem::path& sysfs,
                                            const std::vector<int>& usable);

}  // namespace reprise::device
