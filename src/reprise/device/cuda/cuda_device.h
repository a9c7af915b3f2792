#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

struct CudaDeviceOptions {
  int device_index = 0;
  /// Programmatic dependent launch: a kernel of this image may start before the previous kernel on
  /// the stream, also of this image, has ended. On GPUs of compute capability 9, every kernel of
  /// the image must itself wait for the previous kernel before it accesses memory that kernels
  /// write. Other GPUs ignore this option. Generated code follows the same rule. nullptr: every
  /// kernel starts after the previous one has ended.
  const void* programmatic_image = nullptr;
};

/// One NVIDIA GPU that implements the device contract. Captures are the driver's thread-local
/// stream captures, graphs are the driver's graphs. Every call goes through `api`. \throws
/// DeviceError when the GPU does not exist or does not answer
[[nodiscard]] std::unique_ptr<Device> create_cuda_device(const DriverApi& api,
                                                         const CudaDeviceOptions& options = {});

}  // namespace reprise::device::cuda
