#pragma once

#include "reprise/kernels/device_executor.h"

namespace reprise::kernels {

/// The CPU's launch table: the function launch_<op> of every op.
[[nodiscard]] const LaunchTable& cpu_launches() noexcept;

/// Runs ops with the CPU kernels of one instruction set, on any device that can run these: graphs
/// and tests also use devices that record the launches.
class CpuExecutor final : public DeviceExecutor {
 public:
  CpuExecutor(device::Stream& stream, device::MemoryPool& pool, const KernelTable& kernels) noexcept
      : DeviceExecutor(stream, pool, kernels, cpu_launches()) {}

  [[nodiscard]] WeightFamilies weight_families() const noexcept override {
    return WeightFamilies::all();
  }
};

}  // namespace reprise::kernels
