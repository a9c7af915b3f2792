#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::device {

/// A limit that ends this process, or fails its allocations, when more memory is in use.
struct MemoryLimit {
  std::string name;  // "memory.max of /sys/fs/cgroup/a", "RLIMIT_DATA (ulimit -d)"
  size_t bytes = 0;
  size_t used = 0;  // memory that the system cannot take back: clean pages of files do not count
  /// Whether memory counts as soon as it is mapped, even if it was never touched.
  bool counts_untouched = false;
};

/// Where the limits are read; other folders are for tests.
struct MemoryLimitSources {
  std::filesystem::path cgroups = "/sys/fs/cgroup";
  std::filesystem::path process = "/proc/self";
};

/// The memory limits of this process that are below `most` bytes: memory.max and memory.high of its
/// control group and of all groups above it (cgroup v2), memory.limit_in_bytes (v1), RLIMIT_DATA
/// and RLIMIT_AS. A file that cannot be read is no limit.
[[nodiscard]] std::vector<MemoryLimit> read_memory_limits(size_t most,
                                                          const MemoryLimitSources& sources = {});

}  // namespace reprise::device
