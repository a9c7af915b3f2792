#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "reprise/attention/attention_metadata.h"
#include "reprise/device/device.h"
#include "reprise/models/causal_lm.h"
#include "reprise/models/parameters.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/input_batch.h"

namespace reprise::runner {

/// The data that the forward of the staged step reads: its inputs, the metadata of attention, and
/// the list of other memory whose addresses graphs contain. Owns the memory from which a draft head
/// reads hidden states. Belongs to one thread.
class StepInputs {
 public:
  StepInputs(const BatchLimits& limits,
             const models::CausalLM& model,
             const models::Parameters& parameters,
             Execution& execution);

  /// Adds memory that graphs refer to. \pre no graph exists
  void add_binding(device::BufferView memory) { bindings_.push_back(memory); }
  /// Adds room for the memory of each step's attention plan. \pre called once
  void add_plan_binding();

  /// Takes the metadata of the batch that was staged last.
  const attention::AttentionMetadata& read_metadata(const InputBatch& batch);
  /// Collects the inputs of that batch. `path`: the path of its attention.
  std::span<const Tensor> gather(const InputBatch& batch, const AttentionPath& path);

  [[nodiscard]] std::span<const device::BufferView> bindings() const noexcept { return bindings_; }
  /// Empty unless the model is a draft head.
  [[nodiscard]] device::BufferView hidden_memory() const noexcept { return hidden_states_.view(); }

 private:
  OpExecutor* executor_;  // owned by the execution
  TensorType hidden_type_;
  device::Buffer hidden_states_;
  attention::AttentionMetadata metadata_;
  ForwardInputs tensors_;
  std::vector<device::BufferView> bindings_;
  size_t plan_binding_ = 0;  // index in bindings_
};

}  // namespace reprise::runner
