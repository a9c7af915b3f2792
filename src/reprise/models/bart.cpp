#include <memory>

#include "reprise/models/cross_attention.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class BartLayer final : public DecoderLayer {
 public:
  explicit BartLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &self_attention_.attention();
  }
  [[nodiscard]] CrossAttention* cross_attention() noexcept override { return &cross_attention_; }

 private:
  SelfAttention self_attention_;
  Norm attention_result_norm_;
  CrossAttention cross_attention_;
  Norm cross_result_norm_;
  std::unique_ptr<FeedForward> mlp_;
  Norm mlp_result_norm_;
};

BartLayer::BartLayer(const LayerParts& parts)
    : self_attention_(parts),
      attention_result_norm_(parts, parts.names.attention_result_norm),
      cross_attention_(parts),
      cross_result_norm_(parts, parts.names.cross_result_norm),
      mlp_(make_feed_forward(parts)),
      mlp_result_norm_(parts, parts.names.mlp_result_norm) {}

Tensor BartLayer::forward(cudagraph::ForwardContext& context,
                          const Tensor& hidden,
                          const Tensor& positions) const {
  const Tensor attended = self_attention_(context, hidden, positions);
  const Tensor normed = attention_result_norm_(ops::add(hidden, attended));
  const Tensor crossed = cross_attention_(context, normed);
  const Tensor cross_normed = cross_result_norm_(ops::add(normed, crossed));
  return mlp_result_norm_(ops::add(cross_normed, (*mlp_)(context, cross_normed)));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_bart_layer(const LayerParts& parts) {
  return std::make_unique<BartLayer>(parts);
}

}  // namespace reprise::models
