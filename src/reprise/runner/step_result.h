#pragma once

#include <cstdint>
#include <optional>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

/// The logits of one step and the decision that it ran with. Valid until the next step.
struct StepResult {
  cudagraph::Decision decision;
  /// If the graph of the step's first decision could not be replayed, that decision.
  std::optional<cudagraph::Decision> retired;
  Tensor logits;           // float32[>= num_logits, vocab_size]
  int32_t num_logits = 0;  // rows that the batch needs, in batch order
  Tensor auxiliary;        // what a draft head reads: a row per token, padding included
};

}  // namespace reprise::runner
