#pragma once

#include <memory>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"

namespace reprise::kernels::cuda {

/// Devices and kernels over this driver, with this cuBLASLt or, where it gives a reason, without.
[[nodiscard]] std::unique_ptr<Accelerator> create_cuda_accelerator(
    const device::cuda::DriverApi& api, LoadedCublasLt cublas_lt);

}  // namespace reprise::kernels::cuda
