#pragma once

#include <functional>
#include <memory>
#include <span>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/kernels/cuda/flashinfer_table.h"
#include "reprise/kernels/cuda/nccl_api.h"

namespace reprise::kernels::cuda {

/// The libraries of an accelerator.
struct CudaLibraries {
  LoadedCublasLt cublas_lt;  // unused if it has a reason why there is none
  /// Called once, when ranks are to be connected.
  std::function<LoadedNccl()> load_nccl;
  FlashInferKernels flashinfer = {};  // must outlive the accelerator
  bool are_kernels_slow = false;      // REPRISE_CUDA_FAST_COMPILE; a remark says so
};

/// An accelerator over a driver.
[[nodiscard]] std::unique_ptr<Accelerator> create_cuda_accelerator(
    const device::cuda::DriverApi& api, CudaLibraries libraries);

}  // namespace reprise::kernels::cuda
