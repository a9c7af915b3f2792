#pragma once

#include <memory>
#include <span>

#include "reprise/device/cuda/cuda_device.h"
#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/kernels/cuda/code_target.h"
#include "reprise/kernels/cuda/flashinfer_table.h"
#include "tests/integration/tiny_engine.h"
#include "tests/support/fake_cuda/cuda_machine_fixture.h"
#include "tests/support/fake_cuda/nvrtc_api_fixture.h"

namespace reprise::testing {

// Heads of a size that the tensor-core kernels support.
inline constexpr const char* kHead64Config = R"({
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 128,
  "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 97, "max_position_embeddings": 1024,
  "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": false,
  "hidden_act": "silu"})";

/// The machine for engines on CUDA: a real GPU if there is a driver; otherwise the fake driver,
/// with the kernels' own source compiled for the host and generated code compiled for it.
class CudaEngineMachine {
 public:
  CudaEngineMachine() {
    if (const auto driver = device::cuda::load_driver(); driver.reason.empty()) {
      real_ = device::cuda::create_cuda_device(driver.api);
      cublas_lt_ = kernels::cuda::load_cublas_lt();
      flashinfer_ = kernels::cuda::flashinfer_kernels();
    } else {
      fake_ = std::make_unique<kernels::cuda::CudaMachine>();
    }
    code_ = kernels::cuda::create_code_target(device());
  }
  [[nodiscard]] bool is_real() const { return real_ != nullptr; }
  [[nodiscard]] device::Device& device() { return is_real() ? *real_ : fake_->device(); }
  [[nodiscard]] kernels::cuda::CudaMachine& fake() { return *fake_; }
  [[nodiscard]] compile::FakeNvrtc& fake_nvrtc() { return nvrtc_; }
  [[nodiscard]] const kernels::CodeTarget& code_target() const { return code_; }

  /// The memory that is free for this process. Other processes and the driver may take memory of a
  /// real GPU at any time, so for a real GPU only this process's own allocations count.
  [[nodiscard]] size_t free_bytes() {
    const device::MemoryInfo memory = device().memory();
    return is_real() ? memory.total - memory.allocated_here : memory.free;
  }

  /// Later executors launch FlashInfer's kernels, played on the host. Those of a real GPU do.
  void take_flashinfer() {
    if (is_real()) return;
    flashinfer_ = kernels::cuda::declared_flashinfer_kernels();
    flashinfer_.planned = {};
  }

  [[nodiscard]] TinyEngineOptions options(TinyEngineOptions options) {
    options.device = &device();
    options.generator = compile::cuda_code_generator(code_.architecture, *code_.loader, [this] {
      return is_real() ? compile::load_nvrtc() : nvrtc_.open();
    });
    options.num_warmups = 1;  // as in every start on a GPU
    options.make_executor = [this](device::Stream& stream, device::MemoryPool& pool) {
      const auto& cuda = dynamic_cast<device::cuda::CudaDevice&>(device());
      return std::make_unique<kernels::cuda::CudaExecutor>(
          stream,
          pool,
          kernels::cuda::CudaExecutorOptions{.num_multiprocessors = cuda.driver().attribute(
                                                 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                                             .cublas_lt = cublas_lt(),
                                             .flashinfer = flashinfer_});
    };
    return options;
  }

 private:
  [[nodiscard]] const kernels::cuda::CublasLtApi* cublas_lt() {
    if (!is_real()) return &fake_->cublas_lt().api();
    return cublas_lt_.reason.empty() ? &cublas_lt_.api : nullptr;
  }

  kernels::cuda::LoadedCublasLt cublas_lt_;
  kernels::cuda::FlashInferKernels flashinfer_;
  compile::FakeNvrtc nvrtc_;
  std::unique_ptr<kernels::cuda::CudaMachine> fake_;
  std::unique_ptr<device::Device> real_;
  kernels::CodeTarget code_;
};

}  // namespace reprise::testing
