#include "reprise/kernels/cuda/cuda_accelerator.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/kernels/cuda/code_target.h"
#include "reprise/kernels/cuda/cuda_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/nccl_ranks.h"
#include "reprise/kernels/cuda/row_sampler.h"

namespace reprise::kernels::cuda {
namespace {

class CudaAccelerator final : public Accelerator {
 public:
  CudaAccelerator(device::cuda::DriverApi api, CudaLibraries libraries)
      : api_(std::move(api)), libraries_(std::move(libraries)) {
    if (!libraries_.cublas_lt.reason.empty()) {
      remarks_.push_back(fmt::format(
          "no cuBLASLt ({}): products of many rows run in our own kernels, so prompts take longer",
          libraries_.cublas_lt.reason));
    }
    if (libraries_.are_kernels_slow) {
      remarks_.emplace_back(
          "the kernels for GPUs were compiled with few optimisations and are slow: configure the "
          "build with -DREPRISE_CUDA_FAST_COMPILE=OFF");
    }
  }

  [[nodiscard]] std::unique_ptr<device::Device> create_device(
      const AcceleratorOptions& options) override {
    return device::cuda::create_cuda_device(
        api_,
        {.device_index = options.device_index, .programmatic_launch = options.programmatic_launch});
  }
  void set_programmatic_launch(device::Device& device, bool is_on) override {
    dynamic_cast<device::cuda::CudaDevice&>(device).set_programmatic_launch(is_on);
  }
  [[nodiscard]] int num_devices() const override {
    int count = 0;
    return api_.device_get_count(&count) == CUDA_SUCCESS ? count : 0;
  }
  [[nodiscard]] std::string place_of(device::Device& device) const override {
    const device::cuda::Driver& driver = driver_of(device);
    return fmt::format("PCI {:04x}:{:02x}:{:02x}",
                       driver.attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
                       driver.attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
                       driver.attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
  }
  [[nodiscard]] std::string why_no_ranks() override { return nccl().reason; }
  [[nodiscard]] std::unique_ptr<DeviceRanks> join_ranks(device::Device& device,
                                                        parallel::Communicator& ranks) override {
    return std::make_unique<NcclRanks>(
        nccl().api, nccl().version, dynamic_cast<device::cuda::CudaDevice&>(device), ranks);
  }
  [[nodiscard]] std::unique_ptr<DeviceExecutor> create_executor(
      device::Stream& stream, device::MemoryPool& pool, const ExecutorOptions& options) override {
    const LoadedCublasLt& cublas_lt = libraries_.cublas_lt;
    return std::make_unique<CudaExecutor>(
        stream,
        pool,
        CudaExecutorOptions{.num_multiprocessors = num_multiprocessors(stream.device()),
                            .invariance = options.invariance,
                            .cublas_lt = cublas_lt.reason.empty() ? &cublas_lt.api : nullptr,
                            .flashinfer = flashinfer_of(options),
                            .ranks = {options.ranks.begin(), options.ranks.end()}});
  }
  [[nodiscard]] bool has_library_attention() const override {
    return !libraries_.flashinfer.heads.empty();
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
  [[nodiscard]] FlashInferKernels flashinfer_of(const ExecutorOptions& options) const {
    FlashInferKernels kernels = libraries_.flashinfer;
    if (options.attention == AttentionSource::own ||
        options.invariance == BatchInvariance::required) {
      kernels = {};
    }
    if (options.attention == AttentionSource::library_decoding) kernels.prompts = {};
    return kernels;
  }

  static const device::cuda::Driver& driver_of(device::Device& device) {
    return dynamic_cast<device::cuda::CudaDevice&>(device).driver();
  }
  static int num_multiprocessors(device::Device& device) {
    return driver_of(device).attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }
  const LoadedNccl& nccl() {
    if (!nccl_) nccl_ = libraries_.load_nccl();
    return *nccl_;
  }

  device::cuda::DriverApi api_;
  CudaLibraries libraries_;
  std::optional<LoadedNccl> nccl_;
  std::vector<std::string> remarks_;
};

}  // namespace

std::unique_ptr<Accelerator> create_cuda_accelerator(const device::cuda::DriverApi& api,
                                                     CudaLibraries libraries) {
  return std::make_unique<CudaAccelerator>(api, std::move(libraries));
}

}  // namespace reprise::kernels::cuda
