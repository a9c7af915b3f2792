#pragma once

#include "reprise/attention/recurrent_layer.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// A layer of Mamba-1. Source: Gu and Dao, "Mamba" (2023), section 3.4: values are convolved; time
/// steps, B and C are made from the convolved values; each channel has a recurrence of its own.
class MambaMixer final : public AttentionBlock {
 public:
  explicit MambaMixer(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return recurrence_; }

 private:
  weights::RecurrentConfig sizes_;
  Projection in_;  // [values | gate]
  Tensor conv_weight_;
  Tensor conv_bias_;
  Projection x_;   // [time step's rank | B | C]
  Projection dt_;  // without its bias, which the recurrence adds in float32
  Tensor a_log_;
  Tensor d_;
  Tensor dt_bias_;
  Projection out_;
  attention::RecurrentLayer recurrence_;
};

}  // namespace reprise::models
