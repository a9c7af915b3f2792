#include "reprise/runner/graph_inventory.h"

#include <utility>

#include "reprise/device/graph_node.h"

namespace reprise::runner {

void GraphInventory::begin(cudagraph::CudagraphRuntimeMode mode,
                           const cudagraph::BatchDescriptor& descriptor) {
  current_ = &nodes_[static_cast<size_t>(mode)][descriptor];
  current_->clear();
}

std::vector<NamedUse> GraphInventory::name(std::span<const device::BufferUse> uses) const {
  std::vector<NamedUse> named;
  for (const device::BufferUse& use : uses) {
    const cudagraph::MemoryRegion* const region =
        verification_->memory().find(reinterpret_cast<uintptr_t>(use.data));
    NamedUse& added = named.emplace_back();
    added.bytes = use.bytes;
    added.reads = use.access != device::BufferUse::Access::write;
    added.writes = use.writes();
    if (region == nullptr) continue;
    added.memory = region->name;
    added.role = region->role;
  }
  return named;
}

NamedLaunch GraphInventory::name(const device::Launch& launch) const {
  return {.kernel = launch.kernel->name,
          .num_blocks = launch.num_blocks,
          .is_captured = false,
          .waits_for_previous = true,
          .tells_uses = true,
          .uses = name(launch.uses)};
}

void GraphInventory::on_graph(const device::Graph& graph) {
  verification_->on_graph(graph);  // comes first, because it brings the map up to date
  if (current_ == nullptr) return;
  for (const device::GraphNode& node : graph.nodes()) {
    current_->push_back({.kernel = std::string(node.kernel),
                         .num_blocks = node.num_blocks,
                         .is_captured = true,
                         .waits_for_previous = node.waits_for_previous,
                         .tells_uses = node.tells_uses,
                         .uses = name(node.uses)});
  }
}

std::span<const NamedLaunch> GraphInventory::of(
    cudagraph::CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor) const {
  const ByDescriptor& of_mode = nodes_[static_cast<size_t>(mode)];
  const auto found = of_mode.find(descriptor);
  return found == of_mode.end() ? std::span<const NamedLaunch>() : found->second;
}

}  // namespace reprise::runner
