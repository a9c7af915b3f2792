#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "reprise/device/cpu/command_block.h"
#include "reprise/device/device.h"
#include "reprise/device/graph_node.h"

namespace reprise::device {

class CpuGraph final : public Graph {
 public:
  CpuGraph(CommandBlock block, LaunchUses uses) noexcept
      : block_(std::move(block)), uses_(std::move(uses)) {}

  [[nodiscard]] size_t num_nodes() const noexcept override { return block_.num_commands(); }
  [[nodiscard]] std::vector<GraphNode> nodes() const override;
  [[nodiscard]] const CommandBlock& block() const noexcept { return block_; }

 private:
  CommandBlock block_;
  LaunchUses uses_;  // by command
};

class CpuGraphExec final : public GraphExec {
 public:
  explicit CpuGraphExec(const CommandBlock& block) : block_(block) {}

  void launch(Stream& stream) override;
  [[nodiscard]] size_t num_nodes() const noexcept override { return block_.num_commands(); }
  [[nodiscard]] size_t bytes() const noexcept override { return sizeof *this + block_.bytes(); }
  [[nodiscard]] bool update(const Graph& graph) override;

 private:
  CommandBlock block_;
};

}  // namespace reprise::device
