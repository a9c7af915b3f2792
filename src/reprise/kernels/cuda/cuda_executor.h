#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "reprise/device/device.h"
#include "reprise/kernels/cuda/flashinfer_table.h"
#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/eager_executor.h"

namespace reprise::kernels::cuda {

struct CudaExecutorOptions {
  int num_multiprocessors = 132;  // of the GPU: how far a launch is cut
  /// For products of many rows; nullptr: kernels of our own. Borrowed for the constructor's call.
  const CublasLtApi* cublas_lt = nullptr;
  /// For planned attention of batches with one token per request; of other shapes, and where there
  /// are none, our own. They must outlive the executor.
  std::span<const FlashInferKernels> flashinfer;
};

/// Runs each op at once on a GPU. Ops on rows are launched as on the CPU; products and attention
/// have plans of their own, and generated code has a grid of its own. Quantised ops have no CUDA
/// kernels yet: they are refused, and never silently run elsewhere.
///
/// All kernels are loaded and the workspaces are allocated by the constructor, so that neither
/// happens in a capture. One thread and one stream, as EagerExecutor.
class CudaExecutor final : public EagerExecutor {
 public:
  /// \throws DeviceError, OutOfMemory
  CudaExecutor(device::Stream& stream,
               device::MemoryPool& pool,
               const CudaExecutorOptions& options);

  [[nodiscard]] int64_t norm_prologue_max_token_num() const noexcept override {
    return kMostNormedRows;
  }

 private:
  [[nodiscard]] bool run(const OpCall& call,
                         std::span<const Tensor> inputs,
                         std::span<Tensor> outputs) override;
  /// Of products, with the norm of x first if there is one.
  [[nodiscard]] bool run_after(const NormCall& norm,
                               const OpCall& call,
                               std::span<const Tensor> inputs,
                               std::span<Tensor> outputs);
  /// linear(), or lm_head() of every row, by the library. Whether it was launched.
  bool multiply(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);
  /// The product before an epilogue that the library does not have; undefined if not launched.
  [[nodiscard]] Tensor product_of(std::span<const Tensor> in);
  bool launch_attention(const OpCall& call, std::span<const Tensor> in);
  bool launch_split_attention(const OpCall& call, std::span<const Tensor> in);
  bool launch_planned_attention(const OpCall& call, std::span<const Tensor> in);
  /// nullptr: our own kernels.
  [[nodiscard]] const FlashInferKernels* flashinfer_for(const OpCall& call,
                                                        std::span<const Tensor> in) const;
  bool launch_linear_rope_kv_write(const NormCall& norm,
                                   const OpCall& call,
                                   std::span<const Tensor> in,
                                   const Tensor& q_out);

  CudaExecutorOptions options_;
  device::Buffer partials_;  // of split attention
  device::Buffer arrived_;
  std::unique_ptr<GemmLibrary> gemm_;  // nullptr: there is none
};

}  // namespace reprise::kernels::cuda
