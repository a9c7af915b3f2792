#pragma once

#include <memory>
#include <span>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/kernels/cuda/flashinfer_table.h"

namespace reprise::kernels::cuda {

/// An accelerator over a driver. It uses cuBLASLt, unless `cublas_lt` has a reason why there is
/// none, and the given kernels of FlashInfer, which must outlive it.
[[nodiscard]] std::unique_ptr<Accelerator> create_cuda_accelerator(
    const device::cuda::DriverApi& api,
    LoadedCublasLt cublas_lt,
    std::span<const FlashInferKernels> flashinfer = {});

}  // namespace reprise::kernels::cuda
