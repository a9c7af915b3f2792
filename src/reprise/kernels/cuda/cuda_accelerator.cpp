#include "reprise/kernels/cuda/cuda_accelerator.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/kernels/cuda/code_target.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/row_sampler.h"

namespace reprise::kernels::cuda {
namespace {

class CudaAccelerator final : public Accelerator {
 public:
  CudaAccelerator(device::cuda::DriverApi api,
                  LoadedCublasLt cublas_lt,
                  std::span<const FlashInferKernels> flashinfer)
      : api_(std::move(api)), cublas_lt_(std::move(cublas_lt)), flashinfer_(flashinfer) {
    if (!cublas_lt_.reason.empty()) {
      remarks_.push_back(fmt::format(
          "no cuBLASLt ({}): products of many rows run in our own kernels, so prompts take longer",
          cublas_lt_.reason));
    }
  }

  [[nodiscard]] std::unique_ptr<device::Device> create_device(
      const AcceleratorOptions& options) override {
    return device::cuda::create_cuda_device(
        api_,
        {.device_index = options.device_index,
         .programmatic_image = programmatic_image(options.programmatic_launch)});
  }
  void set_programmatic_launch(device::Device& device, bool is_on) override {
    dynamic_cast<device::cuda::CudaDevice&>(device).set_programmatic_image(
        programmatic_image(is_on));
  }
  [[nodiscard]] std::unique_ptr<DeviceExecutor> create_executor(
      device::Stream& stream, device::MemoryPool& pool, BatchInvariance invariance) override {
    return std::make_unique<CudaExecutor>(
        stream,
        pool,
        CudaExecutorOptions{.num_multiprocessors = num_multiprocessors(stream.device()),
                            .invariance = invariance,
                            .cublas_lt = cublas_lt_.reason.empty() ? &cublas_lt_.api : nullptr,
                            .flashinfer = flashinfer_});
  }
  [[nodiscard]] std::unique_ptr<RowSampler> create_row_sampler(device::Stream& stream,
                                                               int32_t max_rows,
                                                               int64_t vocab_size,
                                                               int32_t most_counted) override {
    if (vocab_size > CudaRowSampler::kLargestVocabulary) return nullptr;
    return std::make_unique<CudaRowSampler>(
        stream, max_rows, vocab_size, num_multiprocessors(stream.device()), most_counted);
  }
  [[nodiscard]] const device::Kernel& expert_counter() const override {
    return cuda::expert_counter();
  }
  [[nodiscard]] CodeTarget create_code_target(device::Device& device) override {
    return cuda::create_code_target(device);
  }
  [[nodiscard]] std::span<const std::string> remarks() const override { return remarks_; }

 private:
  static int num_multiprocessors(device::Device& device) {
    return dynamic_cast<device::cuda::CudaDevice&>(device).driver().attribute(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }
  static const void* programmatic_image(bool is_on) {
    return is_on ? row_kernels().gather_rows.cuda.image : nullptr;
  }

  device::cuda::DriverApi api_;
  LoadedCublasLt cublas_lt_;
  std::span<const FlashInferKernels> flashinfer_;
  std::vector<std::string> remarks_;
};

}  // namespace

std::unique_ptr<Accelerator> create_cuda_accelerator(
    const device::cuda::DriverApi& api,
    LoadedCublasLt cublas_lt,
    std::span<const FlashInferKernels> flashinfer) {
  return std::make_unique<CudaAccelerator>(api, std::move(cublas_lt), flashinfer);
}

}  // namespace reprise::kernels::cuda
