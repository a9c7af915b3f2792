#pragma once

#include "reprise/cudagraph/capture/cudagraph_wrapper.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/forward.h"

namespace reprise::runner {

/// Level 0: runs the model's own code. PIECEWISE works without the compiler: the capture is
/// interrupted at attention.
class ModelForward final : public Forward {
 public:
  /// All arguments are borrowed.
  ModelForward(models::CausalLM& model,
               device::Device& device,
               const cudagraph::CapturePermission& permission,
               bool copy_inputs);

  void run(cudagraph::ForwardContext& context,
           std::span<const Tensor> inputs,
           std::vector<Tensor>& outputs) override {
    wrapper_(context, inputs, outputs);
  }
  [[nodiscard]] size_t num_piecewise_graphs() const noexcept override {
    return wrapper_.num_graphs();
  }
  [[nodiscard]] size_t graph_bytes() const noexcept override { return wrapper_.graph_bytes(); }
  void forget(const cudagraph::BatchDescriptor& descriptor) override {
    wrapper_.forget(descriptor);
  }

 private:
  cudagraph::CudagraphWrapper wrapper_;
};

}  // namespace reprise::runner
