#pragma once

#include "reprise/attention/recurrent_layer.h"
#include "reprise/models/attention_block.h"
#include "reprise/models/projection.h"

namespace reprise::models {

/// A layer of LFM2: one projection gives B, C and values; the result is C * the convolution of
/// B * values, projected. Source: Liquid AI, "LFM2 Technical Report" (2025), section 2, and
/// transformers, Lfm2ShortConv.
class ShortConvMixer final : public AttentionBlock {
 public:
  explicit ShortConvMixer(const LayerParts& parts);

  [[nodiscard]] Tensor operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override { return recurrence_; }

 private:
  Projection in_;  // [B | C | values]
  Tensor conv_weight_;
  Tensor conv_bias_;
  Projection out_;
  attention::RecurrentLayer recurrence_;
};

}  // namespace reprise::models
