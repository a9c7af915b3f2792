#include <memory>

#include "reprise/models/attention_block.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class GraniteLayer final : public DecoderLayer {
 public:
  explicit GraniteLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &attention_->attention();
  }

 private:
  float residual_scale_;
  Norm attention_norm_;
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

GraniteLayer::GraniteLayer(const LayerParts& parts)
    : residual_scale_(static_cast<float>(parts.config.residual_scale)),
      attention_norm_(parts, parts.names.attention_norm),
      attention_(make_attention_block(parts)),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_feed_forward(parts)) {}

Tensor GraniteLayer::forward(cudagraph::ForwardContext& context,
                             const Tensor& hidden,
                             const Tensor& positions) const {
  const Tensor attended = (*attention_)(context, attention_norm_(hidden), positions);
  const Tensor residual = ops::add(hidden, ops::scale(attended, residual_scale_));
  const Tensor transformed = (*mlp_)(context, mlp_norm_(residual));
  return ops::add(residual, ops::scale(transformed, residual_scale_));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_granite_layer(const LayerParts& parts) {
  return std::make_unique<GraniteLayer>(parts);
}

}  // namespace reprise::models
