#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/cudagraph/verify/capture_verifier.h"
#include "reprise/cudagraph/verify/graph_rule.h"

namespace reprise::cudagraph {

/// A copy of all nodes of a key, for comparing two captures of it. A value type.
class CapturedWork {
 public:
  void clear() noexcept { nodes_.clear(); }
  void add(const CapturedNode& node);
  [[nodiscard]] size_t num_nodes() const noexcept { return nodes_.size(); }

  /// The first node in which another capture of the same key differs: kernel, grid, arguments or
  /// uses. Nothing if the captures are equal.
  [[nodiscard]] std::optional<Violation> find_difference(const CapturedWork& other) const;

 private:
  struct Node {
    std::string kernel;
    uint32_t num_blocks = 0;
    std::vector<NodeUse> uses;
    std::vector<std::byte> args;
  };

  static std::string difference(const Node& a, const Node& b);

  std::vector<Node> nodes_;
};

}  // namespace reprise::cudagraph
