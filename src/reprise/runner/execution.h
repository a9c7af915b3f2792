#pragma once

#include <functional>
#include <memory>

#include "reprise/device/device.h"
#include "reprise/kernels/cpu_executor.h"

namespace reprise::engine {

/// The things that work runs on: one stream, the memory of intermediate results, and the executor
/// that turns ops into launches. Models and runners refer to it, so it must outlive them.
///
/// There are two pools, because graphs keep the addresses in their pool for ever: an eager launch
/// between two pieces of a replay must not get memory that a recorded piece still reads.
class Execution {
 public:
  using MakeExecutor = std::function<std::unique_ptr<kernels::DeviceExecutor>(
      device::Stream& stream, device::MemoryPool& pool)>;

  /// `device` must outlive this; `make_executor` is called once.
  Execution(device::Device& device, const MakeExecutor& make_executor)
      : device_(&device),
        stream_(device.create_stream()),
        eager_pool_(device.create_pool()),
        graph_pool_(device.create_pool()),
        executor_(make_executor(*stream_, *eager_pool_)) {}
  /// For a device that runs the CPU's kernels.
  Execution(device::Device& device, const kernels::KernelTable& kernels)
      : Execution(device, [&kernels](device::Stream& stream, device::MemoryPool& pool) {
          return std::make_unique<kernels::CpuExecutor>(stream, pool, kernels);
        }) {}

  [[nodiscard]] device::Device& device() noexcept { return *device_; }
  [[nodiscard]] device::Stream& stream() noexcept { return *stream_; }
  [[nodiscard]] device::MemoryPool& eager_pool() noexcept { return *eager_pool_; }
  [[nodiscard]] device::MemoryPool& graph_pool() noexcept { return *graph_pool_; }
  [[nodiscard]] kernels::DeviceExecutor& executor() noexcept { return *executor_; }

 private:
  device::Device* device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::MemoryPool> eager_pool_;
  std::unique_ptr<device::MemoryPool> graph_pool_;
  std::unique_ptr<kernels::DeviceExecutor> executor_;
};

}  // namespace reprise::engine
