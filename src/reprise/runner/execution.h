#pragma once

#include <functional>
#include <memory>

#include "reprise/device/device.h"
#include "reprise/kernels/cpu_executor.h"

namespace reprise::runner {

/// Where device work runs: one stream, the pools for intermediate results, and the executor that
/// turns ops into launches. Models and runners refer to an Execution, so it must outlive them.
///
/// Graphs and eager work have separate pools. A graph keeps the addresses that it was recorded
/// with. If eager work between two pieces took memory from the same pool, it could overwrite data
/// that a later piece of the replay still reads.
class Execution {
 public:
  using MakeExecutor = std::function<std::unique_ptr<kernels::DeviceExecutor>(
      device::Stream& stream, device::MemoryPool& pool)>;

  /// `device` must outlive this object. The constructor calls `make_executor` once.
  Execution(device::Device& device, const MakeExecutor& make_executor)
      : device_(&device),
        stream_(device.create_stream()),
        eager_pool_(device.create_pool()),
        graph_pool_(device.create_pool()),
        executor_(make_executor(*stream_, *eager_pool_)) {}
  /// For a device that runs CPU kernels.
  Execution(device::Device& device, const kernels::KernelTable& kernels)
      : Execution(device, [&kernels](device::Stream& stream, device::MemoryPool& pool) {
          return std::make_unique<kernels::CpuExecutor>(stream, pool, kernels);
        }) {}

  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] device::Stream& stream() noexcept { return *stream_; }
  [[nodiscard]] device::MemoryPool& eager_pool() noexcept { return *eager_pool_; }
  [[nodiscard]] device::MemoryPool& graph_pool() noexcept { return *graph_pool_; }
  [[nodiscard]] kernels::DeviceExecutor& executor() noexcept { return *executor_; }
  /// Gives all memory of the graph pool back. \pre no graph exists, and nothing uses the pool
  void empty_graph_pool() {
    graph_pool_.reset();  // release its memory before the new pool allocates
    graph_pool_ = device_->create_pool();
  }

 private:
  device::Device* device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> eager_pool_;
  std::unique_ptr<device::MemoryPool> graph_pool_;
  std::unique_ptr<kernels::DeviceExecutor> executor_;
};

}  // namespace reprise::runner
