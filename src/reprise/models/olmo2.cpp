#include <memory>

#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class Olmo2Layer final : public DecoderLayer {
 public:
  explicit Olmo2Layer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &self_attention_.attention();
  }

 private:
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

Olmo2Layer::Olmo2Layer(const LayerParts& parts)
    : self_attention_(parts),
      attention_result_norm_(parts, parts.names.attention_result_norm),
      mlp_(make_feed_forward(parts)),
      mlp_result_norm_(parts, parts.names.mlp_result_norm) {}

Tensor Olmo2Layer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  const Tensor attended = self_attention_(context, hidden, positions);
  const Tensor residual = ops::add(hidden, attention_result_norm_(attended));
  return ops::add(residual, mlp_result_norm_((*mlp_)(context, residual)));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_olmo2_layer(const LayerParts& parts) {
  return std::make_unique<Olmo2Layer>(parts);
}

}  // namespace reprise::models
