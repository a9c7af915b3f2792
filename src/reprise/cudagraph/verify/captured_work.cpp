#include "reprise/cudagraph/verify/captured_work.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::cudagraph {

void CapturedWork::add(const CapturedNode& node) {
  nodes_.push_back({.kernel = std::string(node.kernel),
                    .num_blocks = node.num_blocks,
                    .uses = {node.uses.begin(), node.uses.end()},
                    .args = {node.args.begin(), node.args.end()}});
}

std::optional<Violation> CapturedWork::find_difference(const CapturedWork& other) const {
  const size_t common = std::min(nodes_.size(), other.nodes_.size());
  for (size_t i = 0; i < common; ++i) {
    std::string problem = difference(nodes_[i], other.nodes_[i]);
    if (problem.empty()) continue;
    return Violation{.rule = GraphRule::depends_on_no_batch,
                     .node = i,
                     .kernel = nodes_[i].kernel,
                     .place = {},
                     .buffer = {},
                     .problem = std::move(problem)};
  }
  if (nodes_.size() == other.nodes_.size()) return std::nullopt;
  return Violation{
      .rule = GraphRule::depends_on_no_batch,
      .node = std::nullopt,
      .kernel = {},
      .place = {},
      .buffer = {},
      .problem = fmt::format(
          "one batch gives {} nodes, another gives {}", nodes_.size(), other.nodes_.size())};
}

std::string CapturedWork::difference(const Node& a, const Node& b) {
  if (a.kernel != b.kernel) return fmt::format("is {} for another batch", b.kernel);
  if (a.num_blocks != b.num_blocks) {
    return fmt::format("has {} blocks, and {} for another batch", a.num_blocks, b.num_blocks);
  }
  if (a.uses != b.uses) return "uses other memory for another batch";
  if (a.args.size() != b.args.size()) {
    return fmt::format(
        "has {} bytes of arguments, and {} for another batch", a.args.size(), b.args.size());
  }
  const auto differing = std::ranges::mismatch(a.args, b.args);
  if (differing.in1 == a.args.end()) return {};
  return fmt::format("has other arguments for another batch, first in byte {}: {:#04x} and {:#04x}",
                     differing.in1 - a.args.begin(),
                     std::to_integer<unsigned>(*differing.in1),
                     std::to_integer<unsigned>(*differing.in2));
}

}  // namespace reprise::cudagraph
