#include "reprise/device/cpu/worker_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reprise/base/error.h"

namespace reprise::device {
namespace {

/// The CPUs of one rank: an equal share of all CPUs, cut so that ranks share a node only where they
/// must.
std::vector<LogicalCpu> part_of(const std::vector<LogicalCpu>& cpus, int rank, int num_ranks) {
  const auto count = static_cast<int>(cpus.size());
  const int first = count * rank / num_ranks;
  const int last = std::max(count * (rank + 1) / num_ranks, first + 1);
  // With more ranks than CPUs, several ranks share one.
  return {cpus.begin() + std::min(first, count - 1), cpus.begin() + std::min(last, count)};
}

std::vector<LogicalCpu> listed_cpus(const CpuTopology& topology,
                                    const ThreadBinding& binding,
                                    int rank) {
  if (static_cast<size_t>(rank) >= binding.cpus.size()) {
    throw InvalidArgument(
        fmt::format("--cpu-threads-bind: there are lists for {} rank(s), and this is rank {}; "
                    "separate the lists of ranks by |",
                    binding.cpus.size(),
                    rank));
  }
  std::vector<LogicalCpu> cpus;
  for (const int number : binding.cpus[static_cast<size_t>(rank)]) {
    const auto found = std::ranges::find(topology.cpus, number, &LogicalCpu::number);
    if (found == topology.cpus.end()) {
      throw InvalidArgument(
          fmt::format("--cpu-threads-bind: this process may not use CPU {}", number));
    }
    cpus.push_back(*found);
  }
  std::ranges::stable_sort(cpus, std::less(), &LogicalCpu::node);
  return cpus;
}

std::vector<LogicalCpu> chosen_cpus(const CpuTopology& topology,
                                    const ThreadBinding& binding,
                                    int rank,
                                    int num_ranks) {
  std::vector<LogicalCpu> cpus = topology.cpus;
  switch (binding.kind) {
    case ThreadBinding::Kind::listed:
      return listed_cpus(topology, binding, rank);
    case ThreadBinding::Kind::by_core:
      std::erase_if(cpus, [](const LogicalCpu& cpu) { return cpu.is_sibling; });
      return part_of(cpus, rank, num_ranks);
    case ThreadBinding::Kind::usable:
    case ThreadBinding::Kind::none:
      break;
  }
  std::ranges::sort(cpus, std::less(), &LogicalCpu::number);
  return cpus;
}

}  // namespace

std::optional<ThreadBinding> parse_thread_binding(std::string_view text) {
  if (text.empty()) return ThreadBinding{};
  if (text == "auto") return ThreadBinding{.kind = ThreadBinding::Kind::by_core};
  if (text == "nobind") return ThreadBinding{.kind = ThreadBinding::Kind::none};
  ThreadBinding binding{.kind = ThreadBinding::Kind::listed};
  while (true) {
    const size_t bar = text.find('|');
    const auto cpus = parse_cpu_list(text.substr(0, bar));
    if (!cpus || cpus->empty()) return std::nullopt;
    binding.cpus.push_back(*cpus);
    if (bar == std::string_view::npos) return binding;
    text.remove_prefix(bar + 1);
  }
}

std::vector<NodeSlice> WorkerPlacement::slices_of(size_t bytes, size_t page) const {
  if (!places_memory || bytes == 0) return {};
  const auto end_of = [&](size_t worker) {
    const size_t end = bytes * worker / workers.size();
    return std::min((end + page / 2) / page * page, bytes);
  };
  std::vector<NodeSlice> slices;
  std::set<int> nodes;
  for (size_t i = 0; i < workers.size(); ++i) {
    const int node = workers[i].node;
    if (!std::ranges::binary_search(memory_nodes, node)) continue;
    nodes.insert(node);
    // Workers between two slices have no memory on their own node, so the earlier slice also covers
    // them.
    if (!slices.empty()) slices.back().end = end_of(i);
    if (slices.empty() || slices.back().node != node) {
      slices.push_back({.begin = slices.empty() ? 0 : end_of(i), .end = 0, .node = node});
    }
  }
  if (nodes.size() < 2) return {};
  slices.back().end = bytes;
  std::erase_if(slices, [](const NodeSlice& slice) { return slice.begin >= slice.end; });
  return slices;
}

WorkerPlacement place_workers(const CpuTopology& topology,
                              const ThreadBinding& binding,
                              int num_threads,
                              int rank,
                              int num_ranks) {
  using enum ThreadBinding::Kind;
  WorkerPlacement placement{.workers = chosen_cpus(topology, binding, rank, num_ranks),
                            .is_bound = binding.kind != none,
                            .places_memory = binding.kind == by_core || binding.kind == listed,
                            .memory_nodes = topology.memory_nodes};
  const auto wanted = static_cast<size_t>(num_threads);
  if (num_threads > 0 && wanted < placement.workers.size()) placement.workers.resize(wanted);
  return placement;
}

}  // namespace reprise::device
