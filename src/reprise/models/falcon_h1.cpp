#include <memory>

#include "reprise/models/layers.h"
#include "reprise/models/mamba2_mixer.h"
#include "reprise/models/mixer_parts.h"
#include "reprise/models/mlp.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor multiplied(const Tensor& x, double multiplier) {
  return scaled(x, static_cast<float>(multiplier));
}

class FalconH1Layer final : public DecoderLayer {
 public:
  explicit FalconH1Layer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &attention_.attention();
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

FalconH1Layer::FalconH1Layer(const LayerParts& parts)
    : multipliers_(parts.config.multipliers),
      norm_(parts, parts.names.attention_norm),
      attention_(parts),
      mixer_(parts),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(parts) {}

Tensor FalconH1Layer::forward(cudagraph::ForwardContext& context,
                              const Tensor& hidden,
                              const Tensor& positions) const {
  const Tensor normed = norm_(hidden);
  const Tensor scanned = mixer_(context, multiplied(normed, multipliers_.mixer_in), positions);
  const Tensor attended =
      attention_(context, multiplied(normed, multipliers_.attention_in), positions);
  const Tensor mixed = ops::add(multiplied(scanned, multipliers_.mixer_out),
                                multiplied(attended, multipliers_.attention_out));
  const Tensor residual = ops::add(hidden, mixed);
  const Tensor transformed = mlp_(context, mlp_norm_(residual));
  return ops::add(residual, multiplied(transformed, multipliers_.mlp_out));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_falcon_h1_layer(const LayerParts& parts) {
  return std::make_unique<FalconH1Layer>(parts);
}

}  // namespace reprise::models
