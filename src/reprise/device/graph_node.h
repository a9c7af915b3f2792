#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// One launch in a graph, for proofs and for dumps. Borrowed from the graph.
struct GraphNode {
  std::string_view kernel;  // kernel name, "copy" or "fill"
  uint32_t num_blocks = 0;
  bool waits_for_previous = false;  // whether there is a barrier before this node
  /// Whether `uses` and `args` are known. They are unknown for kernels of a library.
  bool tells_uses = false;
  std::span<const BufferUse> uses;  // every buffer that the node reads or writes
  std::span<const std::byte> args;  // the copy of the arguments with which the node runs
};

/// The buffer uses of a sequence of launches. A value type. A graph keeps one beside its work; an
/// executable graph has none.
class LaunchUses {
 public:
  void append(std::span<const BufferUse> uses) {
    uses_.insert(uses_.end(), uses.begin(), uses.end());
    ends_.push_back(uses_.size());
  }
  [[nodiscard]] size_t num_launches() const noexcept { return ends_.size(); }
  [[nodiscard]] std::span<const BufferUse> of(size_t launch) const noexcept {
    const size_t begin = launch == 0 ? 0 : ends_[launch - 1];
    return std::span(uses_).subspan(begin, ends_[launch] - begin);
  }

 private:
  std::vector<BufferUse> uses_;
  std::vector<size_t> ends_;  // by launch
};

}  // namespace reprise::device
