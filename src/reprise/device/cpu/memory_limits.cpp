#include "reprise/device/cpu/memory_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace reprise::device {
namespace {

namespace fs = std::filesystem;

// The file names of one version of control groups.
struct GroupFiles {
  std::vector<std::string_view> limits;
  std::string_view usage;
  // Entries of memory.stat that count pages of files. The system takes back clean ones before it
  // ends a process.
  std::vector<std::string_view> file_pages;
};

const GroupFiles& files_of_v2() {
  static const GroupFiles files{.limits = {"memory.max", "memory.high"},
                                .usage = "memory.current",
                                .file_pages = {"inactive_file", "active_file"}};
  return files;
}

const GroupFiles& files_of_v1() {
  static const GroupFiles files{.limits = {"memory.limit_in_bytes"},
                                .usage = "memory.usage_in_bytes",
                                .file_pages = {"total_inactive_file", "total_active_file"}};
  return files;
}

std::optional<size_t> read_number(const fs::path& file) {
  size_t number = 0;
  if (std::ifstream in(file); in >> number) return number;
  return std::nullopt;  // "max", or no such file
}

// Returns the value of the line "name value" of a file; `scale` is the unit of its values in bytes.
size_t read_field(const fs::path& file, std::string_view field, size_t scale) {
  std::ifstream in(file);
  std::string name;
  size_t value = 0;
  while (in >> name) {
    if (name == field && in >> value) return value * scale;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

size_t used_in(const fs::path& group, const GroupFiles& files) {
  size_t used = read_number(group / files.usage).value_or(0);
  for (const std::string_view field : files.file_pages) {
    used -= std::min(used, read_field(group / "memory.stat", field, 1));
  }
  return used;
}

void add_limits_of(const fs::path& group,
                   const GroupFiles& files,
                   size_t most,
                   std::vector<MemoryLimit>& limits) {
  for (const std::string_view name : files.limits) {
    const std::optional<size_t> bytes = read_number(group / name);
    if (!bytes || *bytes >= most) continue;
    limits.push_back({.name = fmt::format("{} of {}", name, group.string()),
                      .bytes = *bytes,
                      .used = used_in(group, files)});
  }
}

// A limit of a group holds for all groups below it. In a container, the root of the mounted files
// is often the process's own group, whatever /proc says.
void add_limits_up_from(const fs::path& root,
                        const fs::path& group,
                        const GroupFiles& files,
                        size_t most,
                        std::vector<MemoryLimit>& limits) {
  for (fs::path path = group.relative_path(); !path.empty(); path = path.parent_path()) {
    add_limits_of(root / path, files, most, limits);
  }
  add_limits_of(root, files, most, limits);
}

void add_group_limits(const MemoryLimitSources& sources,
                      size_t most,
                      std::vector<MemoryLimit>& limits) {
  // Lines "ID:CONTROLLERS:PATH"; the line of v2 has no controllers.
  std::ifstream in(sources.process / "cgroup");
  std::string line;
  fs::path v2;
  fs::path v1;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") v2 = line.substr(second + 1);
    if (controllers.find(",memory,") != std::string::npos) v1 = line.substr(second + 1);
  }
  add_limits_up_from(sources.cgroups, v2, files_of_v2(), most, limits);
  add_limits_up_from(sources.cgroups / "memory", v1, files_of_v1(), most, limits);
}

void add_resource_limit(const char* name,
                        decltype(RLIMIT_DATA) resource,
                        size_t used,
                        size_t most,
                        std::vector<MemoryLimit>& limits) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur >= most) return;
  limits.push_back({.name = name, .bytes = limit.rlim_cur, .used = used, .counts_untouched = true});
}

}  // namespace

std::vector<MemoryLimit> read_memory_limits(size_t most, const MemoryLimitSources& sources) {
  std::vector<MemoryLimit> limits;
  add_group_limits(sources, most, limits);
  const fs::path status = sources.process / "status";
  constexpr size_t kKilobyte = 1024;
  add_resource_limit("RLIMIT_DATA (ulimit -d)",
                     RLIMIT_DATA,
                     read_field(status, "VmData:", kKilobyte),
                     most,
                     limits);
  add_resource_limit(
      "RLIMIT_AS (ulimit -v)", RLIMIT_AS, read_field(status, "VmSize:", kKilobyte), most, limits);
  return limits;
}

}  // namespace reprise::device
