#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "reprise/device/device.h"
#include "reprise/kernels/eager_executor.h"

namespace reprise::kernels::cuda {

struct CudaExecutorOptions {
  int num_multiprocessors = 132;  // of the GPU: how far a launch is cut
};

/// Runs each op at once on a GPU. Ops on rows are launched as on the CPU; products and attention
/// have plans of their own. Quantised ops and generated code have no CUDA kernels yet: they are
/// refused, and never silently run elsewhere.
///
/// All kernels are loaded and the workspace is allocated by the constructor, so that neither happens
/// in a capture. One thread and one stream, as EagerExecutor.
class CudaExecutor final : public EagerExecutor {
 public:
  /// \throws DeviceError, OutOfMemory
  CudaExecutor(device::Stream& stream,
               device::MemoryPool& pool,
               const CudaExecutorOptions& options);

 private:
  [[nodiscard]] bool run(const OpCall& call,
                         std::span<const Tensor> inputs,
                         std::span<Tensor> outputs) override;
  bool launch_attention(const OpCall& call, std::span<const Tensor> in);
  bool launch_linear_rope_kv_write(const OpCall& call,
                                   std::span<const Tensor> in,
                                   const Tensor& q_out);

  CudaExecutorOptions options_;
  device::Buffer partials_;  // of split attention
  device::Buffer arrived_;
};

}  // namespace reprise::kernels::cuda
