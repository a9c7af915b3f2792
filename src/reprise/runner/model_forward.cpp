#include "reprise/runner/model_forward.h"

namespace reprise::engine {

ModelForward::ModelForward(models::CausalLM& model,
                           device::Device& device,
                           const cudagraph::CapturePermission& permission,
                           bool copy_inputs)
    : wrapper_(
          [&model](cudagraph::ForwardContext& context,
                   std::span<const Tensor> inputs,
                   std::vector<Tensor>& outputs) {
            const Tensor hidden = model.forward(context, inputs[kInputIds], inputs[kPositions]);
            outputs.clear();
            outputs.push_back(
                model.compute_logits(hidden, inputs[kLogitsIndices], inputs[kNumLogits]));
          },
          cudagraph::CudagraphRuntimeMode::PIECEWISE,
          device,
          permission,
          {.break_at_split_points = true, .copy_inputs = copy_inputs}) {}

}  // namespace reprise::engine
