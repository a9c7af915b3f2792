#pragma once

#include <memory>
#include <span>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/kernels/cuda/flashinfer_table.h"

namespace reprise::kernels::cuda {

/// Devices and kernels over this driver, with this cuBLASLt or, where it gives a reason, without,
/// and with these kernels of FlashInfer, which must stay.
[[nodiscard]] std::unique_ptr<Accelerator> create_cuda_accelerator(
    const device::cuda::DriverApi& api,
    LoadedCublasLt cublas_lt,
    std::span<const FlashInferKernels> flashinfer = {});

}  // namespace reprise::kernels::cuda
