#include <memory>

#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class GemmaLayer final : public DecoderLayer {
 public:
  explicit GemmaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &self_attention_.attention();
  }

 private:
  Norm attention_norm_;
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

GemmaLayer::GemmaLayer(const LayerParts& parts)
    : attention_norm_(parts, parts.names.attention_norm),
      self_attention_(parts),
      attention_result_norm_(parts, parts.names.attention_result_norm),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_feed_forward(parts)),
      mlp_result_norm_(parts, parts.names.mlp_result_norm) {}

Tensor GemmaLayer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  const Tensor attended = self_attention_(context, attention_norm_(hidden), positions);
  const Tensor residual = ops::add(hidden, attention_result_norm_(attended));
  const Tensor transformed = (*mlp_)(context, mlp_norm_(residual));
  return ops::add(residual, mlp_result_norm_(transformed));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_gemma_layer(const LayerParts& parts) {
  return std::make_unique<GemmaLayer>(parts);
}

}  // namespace reprise::models
