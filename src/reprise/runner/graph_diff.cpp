#include "reprise/runner/graph_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace reprise::runner {
namespace {

constexpr double kLeastChange = 0.02;

/// A number for each node; nodes that do the same work have the same number.
using Works = std::vector<uint32_t>;

class WorkNumbers {
 public:
  Works of(const GraphProfile& profile) {
    Works works;
    for (const ProfiledNode& node : profile.nodes) {
      const auto next = static_cast<uint32_t>(numbers_.size());
      works.push_back(numbers_.try_emplace({node.op, node.layer.value_or(-1), node.weight}, next)
                          .first->second);
    }
    return works;
  }

 private:
  std::map<std::tuple<std::string, int32_t, std::string>, uint32_t> numbers_;
};

/// Pairs the longest common subsequence of two replays, with the unpaired nodes between its
/// members.
std::vector<NodePair> pair_up(const Works& a, const Works& b) {
  const size_t width = b.size() + 1;
  // lengths[i, j]: the length of the longest common subsequence of the parts that begin at a[i] and
  // b[j].
  std::vector<uint32_t> lengths((a.size() + 1) * width, 0);
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      lengths[i * width + j] =
          a[i] == b[j] ? lengths[(i + 1) * width + j + 1] + 1
                       : std::max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  std::vector<NodePair> pairs;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    NodePair& pair = pairs.emplace_back();
    const bool is_common = i < a.size() && j < b.size() && a[i] == b[j];
    const bool takes_a =
        i < a.size() &&
        (is_common || j == b.size() || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]);
    if (takes_a) pair.a = i++;
    if (is_common || !takes_a) pair.b = j++;
  }
  return pairs;
}

std::vector<std::string> compare_engines(const Json& a, const Json& b) {
  std::vector<std::string> differences;
  const auto text_of = [](const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto value_in = [&](const Json& engine, const std::string& name) {
    return engine.contains(name) ? text_of(engine.at(name)) : "not there";
  };
  std::vector<std::string> names;
  for (const Json* engine : {&a, &b}) {
    for (const auto& [name, value] : engine->items()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const std::string of_a = value_in(a, name);
    const std::string of_b = value_in(b, name);
    if (of_a != of_b) differences.push_back(fmt::format("{}: {}, {}", name, of_a, of_b));
  }
  return differences;
}

std::string nodes_text(const GraphDiff& diff) {
  if (diff.has_same_nodes()) return "with the same nodes";
  std::vector<std::string> parts;
  const auto add = [&](size_t count, std::string_view what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(diff.num_only_in_a, "only in A");
  add(diff.num_only_in_b, "only in B");
  add(diff.num_other_kernels, "with another kernel");
  add(diff.num_other_bytes, "with other bytes");
  return fmt::format("with other nodes ({})", fmt::join(parts, ", "));
}

}  // namespace

TimeChange compare_times(const TimeSpread& a, const TimeSpread& b) noexcept {
  if (std::abs(b.median - a.median) < kLeastChange * a.median) return TimeChange::same;
  if (b.low > a.high) return TimeChange::slower;
  if (b.high < a.low) return TimeChange::faster;
  return TimeChange::same;
}

GraphDiff diff(const GraphProfile& a, const GraphProfile& b) {
  WorkNumbers numbers;
  const Works of_a = numbers.of(a);
  GraphDiff found;
  found.nodes = pair_up(of_a, numbers.of(b));
  for (NodePair& pair : found.nodes) {
    if (!pair.is_in_both()) {
      ++(pair.a ? found.num_only_in_a : found.num_only_in_b);
      continue;
    }
    const ProfiledNode& first = a.nodes[*pair.a];
    const ProfiledNode& second = b.nodes[*pair.b];
    pair.has_other_kernel = first.kernel != second.kernel;
    pair.has_other_bytes = first.bytes_read() != second.bytes_read() ||
                           first.bytes_written() != second.bytes_written();
    if (first.in_place && second.in_place) {
      pair.time = compare_times(*first.in_place, *second.in_place);
    }
    found.num_other_kernels += pair.has_other_kernel ? 1 : 0;
    found.num_other_bytes += pair.has_other_bytes ? 1 : 0;
    found.num_slower += pair.time == TimeChange::slower ? 1 : 0;
    found.num_faster += pair.time == TimeChange::faster ? 1 : 0;
  }
  found.replay = compare_times(a.replay, b.replay);
  found.engines = compare_engines(a.engine, b.engine);
  return found;
}

std::string verdict_of(const GraphProfile& a, const GraphProfile& b, const GraphDiff& diff) {
  const std::string nodes = nodes_text(diff);
  if (diff.replay == TimeChange::same) {
    return fmt::format("A and B take the same time within their spread, {}", nodes);
  }
  const double change = std::abs(b.replay.median / a.replay.median - 1) * 100;
  return fmt::format("B is {:.0f} % {} than A, {}",
                     change,
                     diff.replay == TimeChange::slower ? "slower" : "faster",
                     nodes);
}

}  // namespace reprise::runner
