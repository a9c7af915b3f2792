#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

/// The logits of one step and the decision that it ran with. Valid until the next step.
struct StepResult {
  cudagraph::Decision decision;
  /// The first decision of the step, if its graph could not be replayed.
  std::optional<cudagraph::Decision> retired;
  Tensor logits;           // float32[>= num_logits, vocab_size]
  int32_t num_logits = 0;  // rows that the batch needs, in batch order
  // The hidden states for a draft head: one row per token, including padding.
  Tensor auxiliary;
};

/// A graph that could not be captured or replayed. Its key was retired, and steps run eagerly
/// instead.
struct RetiredGraph {
  cudagraph::CudagraphRuntimeMode mode;
  cudagraph::BatchDescriptor descriptor;
  std::string reason;
};

}  // namespace reprise::runner
