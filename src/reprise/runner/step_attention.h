#pragma once

#include <cstdint>
#include <memory>

#include "reprise/attention/attention_backend.h"
#include "reprise/attention/cascade_attention.h"
#include "reprise/models/causal_lm.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/model_runner_options.h"

namespace reprise::runner {

/// The attention of a runner's steps: one backend for the layers with a cache of keys and values,
/// one for recurrent layers if there are any, and the choice of cascade attention. Owns the
/// backends. Belongs to one thread.
class StepAttention {
 public:
  StepAttention(const ModelRunnerOptions& options, models::CausalLM& model, Execution& execution);

  /// Whether a batch with these facts runs faster with cascade attention.
  [[nodiscard]] bool prefers_cascade(const cudagraph::BatchFacts& facts) const noexcept {
    return cascade_ != nullptr && cascade_->is_faster(facts);
  }
  /// Prepares the attention of a step and gives its path to the executor. `cascade`: the facts of a
  /// batch with cascade attention; nullptr: no cascade attention. The path is valid until the next
  /// call.
  AttentionPath prepare(const attention::AttentionMetadata& metadata,
                        const cudagraph::BatchDescriptor& descriptor,
                        cudagraph::CudagraphRuntimeMode run_as,
                        const cudagraph::BatchFacts* cascade);

  /// The number of requests from which on steps may use cascade attention; 0: no step does.
  [[nodiscard]] int32_t least_cascade_reqs() const noexcept {
    return cascade_ == nullptr ? 0 : attention::kFewestCascadeReqs;
  }
  /// Steps that used cascade attention.
  [[nodiscard]] uint64_t num_cascade_steps() const noexcept { return num_cascade_steps_; }

 private:
  Execution* execution_;
  std::unique_ptr<attention::AttentionBackend> backend_;
  std::unique_ptr<attention::AttentionBackend> recurrent_;  // nullptr: backend_ serves all layers
  std::unique_ptr<attention::CascadeAttention> cascade_;    // nullptr: no step uses it
  uint64_t num_cascade_steps_ = 0;
};

}  // namespace reprise::runner
