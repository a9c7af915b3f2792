#include "reprise/device/cpu/cpu_graph.h"

#include "reprise/device/cpu/cpu_stream.h"

namespace reprise::device {

std::vector<GraphNode> CpuGraph::nodes() const {
  std::vector<GraphNode> nodes;
  nodes.reserve(block_.num_commands());
  uint32_t phase = 0;
  block_.for_each([&](const Command& command) {
    nodes.push_back({.kernel = command.kernel->name,
                     .num_blocks = command.num_blocks,
                     .waits_for_previous = command.phase != phase,
                     .tells_uses = true,
                     .uses = uses_.of(nodes.size()),
                     .args = {command.args(), command.args_bytes}});
    phase = command.phase;
  });
  return nodes;
}

void CpuGraphExec::launch(Stream& stream) {
  auto* cpu_stream = dynamic_cast<CpuStream*>(&stream);
  if (cpu_stream == nullptr)
    throw DeviceError("cpu: a graph was launched on another device's stream");
  cpu_stream->launch(block_);
}

bool CpuGraphExec::update(const Graph& graph) {
  const auto* cpu_graph = dynamic_cast<const CpuGraph*>(&graph);
  if (cpu_graph == nullptr || !cpu_graph->block().has_shape_of(block_)) return false;
  block_ = cpu_graph->block();  // copy everything: addresses may differ, and so may the barriers
  return true;
}

}  // namespace reprise::device
