#include "reprise/runner/step_inputs.h"

namespace reprise::runner {

StepInputs::StepInputs(const BatchLimits& limits,
                       const models::CausalLM& model,
                       const models::Parameters& parameters,
                       Execution& execution)
    : executor_(&execution.executor()),
      hidden_type_{parameters.dtype(), {limits.max_num_tokens, model.hidden_input_size()}} {
  bindings_ = parameters.memory();
  if (hidden_type_.bytes() == 0) return;
  hidden_states_ = execution.device().allocate(hidden_type_.bytes());
  execution.stream().fill(hidden_states_.data(), std::byte{0}, hidden_type_.bytes());
}

void StepInputs::add_plan_binding() {
  plan_binding_ = bindings_.size();
  bindings_.emplace_back();
}

const attention::AttentionMetadata& StepInputs::read_metadata(const InputBatch& batch) {
  metadata_ = batch.attention_metadata();
  return metadata_;
}

std::span<const Tensor> StepInputs::gather(const InputBatch& batch, const AttentionPath& path) {
  // A graph reads the attention plan at the address that was captured. If that memory moves, the
  // wrapper must notice it, so the plan is one of the bindings that the wrapper compares.
  bindings_[plan_binding_] = path.plan.defined() ? path.plan.extent() : device::BufferView{};
  tensors_ = {batch.input_ids(),
              batch.positions(),
              metadata_.slot_mapping,
              metadata_.query_start_loc,
              metadata_.seq_lens,
              metadata_.block_table,
              batch.logits_indices(),
              batch.num_logits(),
              metadata_.state_indices};
  if (hidden_states_.bytes() > 0) {
    tensors_[kHiddenStates] =
        Tensor::borrow({hidden_type_.dtype, {batch.shape().num_tokens, hidden_type_.shape[1]}},
                       hidden_states_.data(),
                       *executor_);
  }
  const std::span<const Tensor> inputs = tensors_;
  if (metadata_.encoder_lens.defined()) {
    tensors_[kEncoderLens] = metadata_.encoder_lens;
    tensors_[kEncoderBlockTable] = metadata_.encoder_block_table;
    return inputs;
  }
  return inputs.first(tensors_[kStateIndices].defined() ? kStateIndices + 1 : kStateIndices);
}

}  // namespace reprise::runner
