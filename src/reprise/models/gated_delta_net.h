#pragma once

#include "reprise/attention/recurrent_layer.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// A gated delta net. Source: Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024), in the form
/// of Qwen3-Next: queries, keys and values are convolved together; each head's result is normalised
/// and gated.
class GatedDeltaNet final : public AttentionBlock {
 public:
  explicit GatedDeltaNet(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return recurrence_; }

 private:
  weights::RecurrentConfig sizes_;
  float norm_epsilon_;
  Projection in_;  // [q | k | v | gate | beta | time steps]
  Tensor conv_weight_;
  Tensor a_log_;
  Tensor dt_bias_;
  Tensor norm_weight_;
  Projection out_;
  attention::RecurrentLayer recurrence_;
};

}  // namespace reprise::models
