#pragma once

#include "reprise/attention/recurrent_layer.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// Kimi delta attention: a gated delta net in which every element of a key forgets at its own rate.
/// The rates and the gate of the result come from the hidden state through two small projections
/// each. Source: Kimi Team, "Kimi Linear" (2025), section 3.
class KimiDeltaAttention final : public AttentionBlock {
 public:
  explicit KimiDeltaAttention(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return recurrence_; }

 private:
  weights::RecurrentConfig sizes_;
  float norm_epsilon_;
  Projection in_;       // [q | k | v | beta | inputs of the projections of rates and gate]
  Tensor rate_weight_;  // [heads * key size, key size]
  Tensor gate_weight_;  // likewise
  Tensor conv_weight_;  // the weights of q, k and v, stacked by rows
  Tensor a_log_;        // float32[heads]
  Tensor dt_bias_;      // float32[heads * key size]
  Tensor norm_weight_;
  Projection out_;
  attention::RecurrentLayer recurrence_;
};

}  // namespace reprise::models
