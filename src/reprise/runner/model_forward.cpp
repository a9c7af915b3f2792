#include "reprise/runner/model_forward.h"

#include <utility>

namespace reprise::runner {

ModelForward::ModelForward(models::CausalLM& model,
                           device::Device& device,
                           const cudagraph::CapturePermission& permission,
                           bool copy_inputs)
    : wrapper_(
          [&model](cudagraph::ForwardContext& context,
                   std::span<const Tensor> inputs,
                   std::vector<Tensor>& outputs) {
            if (model.hidden_input_size() > 0) context.hidden_states = inputs[kHiddenStates];
            const Tensor hidden = model.forward(context, inputs[kInputIds], inputs[kPositions]);
            outputs.clear();
            outputs.push_back(
                model.compute_logits(hidden, inputs[kLogitsIndices], inputs[kNumLogits]));
            if (context.auxiliary.defined()) outputs.push_back(std::move(context.auxiliary));
            context.auxiliary = {};
          },
          cudagraph::CudagraphRuntimeMode::PIECEWISE,
          device,
          permission,
          {.break_at_split_points = true, .copy_inputs = copy_inputs}) {}

}  // namespace reprise::runner
