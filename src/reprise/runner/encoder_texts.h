#pragma once

#include "reprise/models/causal_lm.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/step_attention.h"
#include "reprise/runner/step_part.h"

namespace reprise::runner {

/// The batch of an encoder: one whole text. `limits`: of the decoder's steps
[[nodiscard]] BatchLimits limits_of_encoder(const BatchLimits& limits) noexcept;

/// Runs the encoder for each request whose first step this is, eagerly and one after the other.
class EncoderTexts final : public StepPart {
 public:
  /// `limits`: of the decoder's steps. Everything else is borrowed.
  EncoderTexts(const BatchLimits& limits,
               models::CausalLM& model,
               StepAttention& attention,
               Execution& execution);

  void stage(std::span<const scheduler::StepEntry> requests,
             const cudagraph::BatchDescriptor& descriptor,
             device::Stream& stream) override;

 private:
  models::CausalLM* model_;
  StepAttention* attention_;
  InputBatch batch_;  // one text
};

}  // namespace reprise::runner
