#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/device/graph_node.h"

namespace reprise::device::cuda {

/// The launches that the host gave to a capture, in order. The driver's graph does not contain
/// these facts about its nodes. A value type.
class CapturedLaunches {
 public:
  /// `name` must outlive this object: a kernel's name, or a literal.
  void add(std::string_view name,
           uint32_t num_blocks,
           std::span<const std::byte> args,
           std::span<const BufferUse> uses);
  /// A call of a library, which makes any number of nodes. `uses`: the buffers that all these nodes
  /// use.
  void add_library(std::span<const BufferUse> uses);

  /// Completes the nodes of a graph, which are in the order of their work. A capture on several
  /// streams may have another order than the host's launches: from the first node that does not
  /// match the next launch, nodes get no uses.
  void describe(std::span<GraphNode> nodes) const;

 private:
  struct Entry {
    std::string_view name;  // empty: of a library
    uint32_t num_blocks = 0;
    size_t args_begin = 0;
    size_t args_bytes = 0;
  };

  /// Whether the node can be the first one of an entry.
  [[nodiscard]] bool can_begin(size_t index, const GraphNode& node) const noexcept;

  std::vector<Entry> entries_;
  std::vector<std::byte> args_;
  LaunchUses uses_;  // by entry
};

}  // namespace reprise::device::cuda
