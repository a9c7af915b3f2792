#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

struct CudaDeviceOptions {
  int device_index = 0;
  /// Programmatic dependent launch: a kernel of this image may start before the previous kernel on
  /// the stream has ended, if that kernel is of this image too. Each kernel of the image must then
  /// wait for the previous one itself before it uses memory that kernels write. The same holds for
  /// generated code. Only GPUs of compute capability 9 use this option. nullptr: every kernel
  /// starts after the previous one has ended.
  const void* programmatic_image = nullptr;
};

/// One NVIDIA GPU behind the device contract: captures are thread-local stream captures of the
/// driver, and graphs are the driver's graphs. Every call goes through `api`.
/// \throws DeviceError when there is no such GPU or it does not answer
[[nodiscard]] std::unique_ptr<Device> create_cuda_device(const DriverApi& api,
                                                         const CudaDeviceOptions& options = {});

}  // namespace reprise::device::cuda
