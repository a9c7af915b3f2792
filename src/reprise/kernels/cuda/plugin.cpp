#include <string>

#include "reprise/device/cuda/driver_api.h"
#include "reprise/device/cuda/usable_gpu.h"
#include "reprise/kernels/accelerator.h"
#include "reprise/kernels/cuda/cublas_lt_api.h"
#include "reprise/kernels/cuda/cuda_accelerator.h"
#include "reprise/kernels/cuda/flashinfer_table.h"

// The entry point of reprise_cuda.so.
extern "C" __attribute__((visibility("default"))) reprise::kernels::Accelerator*
reprise_create_accelerator(uint32_t version, std::string& reason) {
  if (version != reprise::kernels::kAcceleratorVersion) {
    reason = "reprise_cuda.so is of another version of Reprise; build both from one tree";
    return nullptr;
  }
  using reprise::kernels::AcceleratorOptions;
  const reprise::device::cuda::LoadedDriver driver = reprise::device::cuda::load_driver();
  reason = driver.reason;
  if (reason.empty()) {
    reason = reprise::device::cuda::why_not_usable(
        driver.api, AcceleratorOptions{}.device_index, REPRISE_CUDA_ARCHITECTURES);
  }
  if (!reason.empty()) return nullptr;
  using namespace reprise::kernels::cuda;
  return create_cuda_accelerator(driver.api,
                                 {.cublas_lt = load_cublas_lt(),
                                  .load_nccl = load_nccl,
                                  .flashinfer = flashinfer_kernels(),
                                  .are_kernels_slow = REPRISE_CUDA_FAST_COMPILE != 0})
      .release();
}
