#pragma once

#include <cstdint>

#include "reprise/attention/recurrent_layer.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// A layer of Mamba-2. Source: Dao and Gu, "Transformers are SSMs" (2024), section 7.1: one
/// projection gives the gate, the values with B and C, and the time steps; values, B and C are
/// convolved; the recurrence gives the result, which is gated and normalised.
class Mamba2Mixer final : public AttentionBlock {
 public:
  explicit Mamba2Mixer(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return recurrence_; }

 private:
  [[nodiscard]] Tensor gate_and_norm(const Tensor& scanned, const Tensor& gate) const;

  weights::RecurrentConfig sizes_;
  float gate_scale_;
  float dt_scale_;
  float norm_epsilon_;
  Projection in_;  // [gate | values, B, C | time steps]
  Tensor conv_weight_;
  Tensor conv_bias_;
  Tensor a_log_;
  Tensor d_;
  Tensor dt_bias_;
  Tensor norm_weight_;  // undefined: no norm
  Projection out_;
  attention::RecurrentLayer recurrence_;
};

}  // namespace reprise::models
