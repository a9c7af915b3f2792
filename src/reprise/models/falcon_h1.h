#pragma once

#include "reprise/models/decoder.h"
#include "reprise/models/mamba2_mixer.h"
#include "reprise/models/mlp.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"

namespace reprise::models {

/// The layer of Falcon-H1: attention and a recurrence of Mamba-2 read the same norm, and the
/// residual takes the sum of their results. Everything that goes into a part of the layer or comes
/// out of it has a multiplier. Source: Zuo et al., "Falcon-H1" (2025), sections 2 and 3.
class FalconH1Layer final : public DecoderLayer {
 public:
  explicit FalconH1Layer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer& attention() noexcept override {
    return attention_.attention();
  }
  [[nodiscard]] attention::AttentionLayer* recurrence() noexcept override {
    return &mixer_.attention();
  }

 private:
  weights::LayerMultipliers multipliers_;
  Norm norm_;
  SelfAttention attention_;
  Mamba2Mixer mixer_;
  Norm mlp_norm_;
  Mlp mlp_;
};

}  // namespace reprise::models
