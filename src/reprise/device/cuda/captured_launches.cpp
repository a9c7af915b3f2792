#include "reprise/device/cuda/captured_launches.h"

namespace reprise::device::cuda {

void CapturedLaunches::add(std::string_view name,
                           uint32_t num_blocks,
                           std::span<const std::byte> args,
                           std::span<const BufferUse> uses) {
  entries_.push_back({.name = name,
                      .num_blocks = num_blocks,
                      .args_begin = args_.size(),
                      .args_bytes = args.size()});
  args_.insert(args_.end(), args.begin(), args.end());
  uses_.append(uses);
}

void CapturedLaunches::add_library(std::span<const BufferUse> uses) {
  entries_.emplace_back();
  uses_.append(uses);
}

bool CapturedLaunches::can_begin(size_t index, const GraphNode& node) const noexcept {
  if (index >= entries_.size()) return false;
  const Entry& entry = entries_[index];
  return entry.name.empty() || (entry.name == node.kernel && entry.num_blocks == node.num_blocks);
}

void CapturedLaunches::describe(std::span<GraphNode> nodes) const {
  size_t next = 0;
  for (GraphNode& node : nodes) {
    // The nodes of a library's call continue until a node matches the next launch.
    const bool goes_on = next > 0 && entries_[next - 1].name.empty() && !can_begin(next, node);
    const size_t index = goes_on ? next - 1 : next++;
    if (!can_begin(index, node)) return;
    node.tells_uses = true;
    node.uses = uses_.of(index);
    node.args = std::span(args_).subspan(entries_[index].args_begin, entries_[index].args_bytes);
  }
}

}  // namespace reprise::device::cuda
