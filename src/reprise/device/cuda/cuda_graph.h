#pragma once

#include <cuda.h>

#include <vector>

#include "reprise/device/device.h"

namespace reprise::device::cuda {

class CudaDevice;

/// Owns one of the driver's graphs.
class CudaGraph final : public Graph {
 public:
  /// Takes ownership of `handle` only when the constructor returns. \throws DeviceError
  CudaGraph(CudaDevice& device, CUgraph handle);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override;

  [[nodiscard]] size_t num_nodes() const noexcept override { return nodes_.size(); }
  [[nodiscard]] std::vector<GraphNode> nodes() const override { return nodes_; }
  [[nodiscard]] CUgraph handle() const noexcept { return handle_; }

 private:
  CudaDevice* device_;  // the device that made this graph
  CUgraph handle_;
  std::vector<GraphNode> nodes_;
};

/// Owns one of the driver's executable graphs, already uploaded to the GPU.
class CudaGraphExec final : public GraphExec {
 public:
  /// \throws DeviceError, OutOfMemory
  CudaGraphExec(CudaDevice& device, const CudaGraph& graph);
  CudaGraphExec(const CudaGraphExec&) = delete;
  CudaGraphExec& operator=(const CudaGraphExec&) = delete;
  ~CudaGraphExec() override;

  void launch(Stream& stream) override;
  [[nodiscard]] size_t num_nodes() const noexcept override { return nodes_.size(); }
  [[nodiscard]] size_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] bool update(const Graph& graph) override;

 private:
  void upload() const;

  CudaDevice* device_;  // the device that made this graph
  CUgraphExec handle_ = nullptr;
  std::vector<GraphNode> nodes_;
  size_t bytes_ = 0;
};

}  // namespace reprise::device::cuda
