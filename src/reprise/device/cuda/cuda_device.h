#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

struct CudaDeviceOptions {
  int device_index = 0;
  /// Programmatic dependent launch: a kernel of this image may be started before the one of this
  /// image ahead of it on the stream has ended. Each of them must wait for it by itself, before it
  /// touches what kernels write, where the GPU has compute capability 9; on others this is not
  /// looked at. Generated code likewise. nullptr: every kernel is started when the one ahead has
  /// ended.
  const void* programmatic_image = nullptr;
};

/// One NVIDIA GPU behind the device contract: captures are thread-local stream captures of the
/// driver, graphs its graphs. Every call goes through `api`.
/// \throws DeviceError when there is no such GPU or it does not answer
[[nodiscard]] std::unique_ptr<Device> create_cuda_device(const DriverApi& api,
                                                         const CudaDeviceOptions& options = {});

}  // namespace reprise::device::cuda
