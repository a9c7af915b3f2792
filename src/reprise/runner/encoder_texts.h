#pragma once

#include "reprise/models/causal_lm.h"
#include "reprise/runner/execution.h"
#include "reprise/runner/input_batch.h"
#include "reprise/runner/step_attention.h"
#include "reprise/runner/step_part.h"

namespace reprise::runner {

/// The limits of the encoder's batch, which is one whole text. `limits`: of the decoder's steps
[[nodiscard]] BatchLimits limits_of_encoder(const BatchLimits& limits) noexcept;

/// In the first step of a request, runs the encoder over its text: eagerly, and one request after
/// the other.
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
