#include "reprise/device/cpu/cpu_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace reprise::device {
namespace {

namespace fs = std::filesystem;

constexpr int kHighestCpu = 8191;
// No list of CPUs is longer than this, so reading stops here.
constexpr size_t kMaxListBytes = 64 << 10;

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number <= kHighestCpu ? std::optional(number) : std::nullopt;
}

/// The text of a file without the line break at its end; nothing: the file does not exist.
std::optional<std::string> read_line(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(kMaxListBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

/// Reads lists below a folder, and keeps the first problem.
class ListReader {
 public:
  explicit ListReader(fs::path root) : root_(std::move(root)) {}

  [[nodiscard]] std::optional<std::vector<int>> read(const std::string& name) {
    const std::optional<std::string> text = read_line(root_ / name);
    if (!text) {
      keep(fmt::format("{} cannot be read", (root_ / name).string()));
      return std::nullopt;
    }
    std::optional<std::vector<int>> list = parse_cpu_list(*text);
    if (!list) {
      keep(fmt::format(
          "{} has '{}', expected a list like 0-3,8", (root_ / name).string(), text->substr(0, 40)));
    }
    return list;
  }
  void keep(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  fs::path root_;
  std::string problem_;
};

/// The node of each CPU; nothing: the files do not contain this.
std::optional<std::map<int, int>> read_nodes(ListReader& lists) {
  const auto nodes = lists.read("node/online");
  if (!nodes) return std::nullopt;
  std::map<int, int> node_of;
  for (const int node : *nodes) {
    const auto cpus = lists.read(fmt::format("node/node{}/cpulist", node));
    if (!cpus) return std::nullopt;
    for (const int cpu : *cpus) {
      if (!node_of.emplace(cpu, node).second) {
        lists.keep(fmt::format("CPU {} is on two nodes", cpu));
        return std::nullopt;
      }
    }
  }
  return node_of;
}

CpuTopology on_one_node(const std::vector<int>& usable, std::string remark) {
  CpuTopology topology{.memory_nodes = {0}, .remark = std::move(remark)};
  for (const int cpu : usable) topology.cpus.push_back({.number = cpu});
  return topology;
}

}  // namespace

bool CpuTopology::has_several_nodes() const {
  std::set<int> nodes;
  for (const LogicalCpu& cpu : cpus) {
    if (std::ranges::binary_search(memory_nodes, cpu.node)) nodes.insert(cpu.node);
  }
  return nodes.size() > 1;
}

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::set<int> numbers;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const size_t dash = item.find('-');
    const std::optional<int> first = parse_number(item.substr(0, dash));
    const std::optional<int> last =
        dash == std::string_view::npos ? first : parse_number(item.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    for (int number = *first; number <= *last; ++number) numbers.insert(number);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;  // a comma at the end
  }
  return std::vector<int>(numbers.begin(), numbers.end());
}

CpuTopology read_cpu_topology(const fs::path& sysfs, const std::vector<int>& usable) {
  ListReader lists(sysfs / "devices" / "system");
  std::vector<int> online = usable;
  if (const auto all = lists.read("cpu/online")) {
    online.clear();
    std::ranges::set_intersection(usable, *all, std::back_inserter(online));
  }
  // If the list has no CPU of this process, the files describe another machine: ignore the list.
  if (online.empty()) online = usable;
  const auto node_of = read_nodes(lists);
  if (!node_of) return on_one_node(online, lists.problem());

  CpuTopology topology;
  topology.memory_nodes = lists.read("node/has_memory").value_or(std::vector<int>());
  if (topology.memory_nodes.empty()) {
    for (const auto& [cpu, node] : *node_of) topology.memory_nodes.push_back(node);
    std::ranges::sort(topology.memory_nodes);
    const auto repeated = std::ranges::unique(topology.memory_nodes);
    topology.memory_nodes.erase(repeated.begin(), repeated.end());
  }
  for (const int cpu : online) {
    const auto node = node_of->find(cpu);
    if (node == node_of->end()) {
      return on_one_node(online, fmt::format("CPU {} is on no node", cpu));
    }
    const auto siblings = lists.read(fmt::format("cpu/cpu{}/topology/thread_siblings_list", cpu));
    const bool is_sibling = siblings && std::ranges::any_of(*siblings, [&](int other) {
                              return other < cpu && std::ranges::binary_search(online, other);
                            });
    topology.cpus.push_back({.number = cpu, .node = node->second, .is_sibling = is_sibling});
  }
  std::ranges::stable_sort(topology.cpus, std::less(), &LogicalCpu::node);
  topology.remark = lists.problem();
  return topology;
}

}  // namespace reprise::device
