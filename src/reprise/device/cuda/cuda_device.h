#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

struct CudaDeviceOptions {
  int device_index = 0;
  /// Programmatic dependent launch: kernels that wait for earlier ones by themselves
  /// (CudaKernelCode::Start), and generated code, may begin before the previous kernel on the
  /// stream has ended. Only GPUs of compute capability 9 use this option.
  bool programmatic_launch = false;
};

/// One NVIDIA GPU behind the device contract: captures are thread-local stream captures of the
/// driver, and graphs are the driver's graphs. Every call goes through `api`.
/// \throws DeviceError when there is no such GPU or it does not answer
[[nodiscard]] std::unique_ptr<Device> create_cuda_device(const DriverApi& api,
                                                         const CudaDeviceOptions& options = {});

}  // namespace reprise::device::cuda
