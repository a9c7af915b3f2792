#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/device.h"

namespace reprise::device::cuda {

struct CudaDeviceOptions {
  int device_index = 0;
};

/// One NVIDIA GPU behind the device contract: captures are thread-local stream captures of the
/// driver, graphs its graphs. Every call goes through `api`.
/// \throws DeviceError when there is no such GPU or it does not answer
[[nodiscard]] std::unique_ptr<Device> create_cuda_device(const DriverApi& api,
                                                         const CudaDeviceOptions& options = {});

}  // namespace reprise::device::cuda
