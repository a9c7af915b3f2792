#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/device/cuda/captured_launches.h"
#include "reprise/device/device.h"
#include "reprise/device/graph_node.h"

namespace reprise::device::cuda {

class CudaDevice;

/// The facts about a node that the driver returns.
struct NodeShape {
  std::string kernel;
  uint32_t num_blocks = 0;
  bool waits_for_previous = false;
};

/// Owns a graph of the driver.
class CudaGraph final : public Graph {
 public:
  /// Takes ownership of `handle` only if no exception is thrown. \throws DeviceError
  CudaGraph(CudaDevice& device, CUgraph handle, CapturedLaunches launches);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override;

  [[nodiscard]] size_t num_nodes() const noexcept override { return shapes_.size(); }
  [[nodiscard]] std::vector<GraphNode> nodes() const override;
  [[nodiscard]] const std::vector<NodeShape>& shapes() const noexcept { return shapes_; }
  [[nodiscard]] CUgraph handle() const noexcept { return handle_; }

 private:
  CudaDevice* device_;  // the device that made this graph
  CUgraph handle_;
  std::vector<NodeShape> shapes_;
  CapturedLaunches launches_;
};

/// Owns an executable graph of the driver, which is already uploaded to the GPU.
class CudaGraphExec final : public GraphExec {
 public:
  /// \throws DeviceError, OutOfMemory
  CudaGraphExec(CudaDevice& device, const CudaGraph& graph);
  CudaGraphExec(const CudaGraphExec&) = delete;
  CudaGraphExec& operator=(const CudaGraphExec&) = delete;
  ~CudaGraphExec() override;

  void launch(Stream& stream) override;
  [[nodiscard]] size_t num_nodes() const noexcept override { return shapes_.size(); }
  [[nodiscard]] size_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] bool update(const Graph& graph) override;

 private:
  void upload() const;

  CudaDevice* device_;  // the device that made this graph
  CUgraphExec handle_ = nullptr;
  std::vector<NodeShape> shapes_;
  size_t bytes_ = 0;
};

}  // namespace reprise::device::cuda
