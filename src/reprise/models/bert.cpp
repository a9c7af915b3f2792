#include <memory>

#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class BertLayer final : public DecoderLayer {
 public:
  explicit BertLayer(const LayerParts& parts);

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

BertLayer::BertLayer(const LayerParts& parts)
    : self_attention_(parts),
      attention_result_norm_(parts, parts.names.attention_result_norm),
      mlp_(make_feed_forward(parts)),
      mlp_result_norm_(parts, parts.names.mlp_result_norm) {}

Tensor BertLayer::forward(cudagraph::ForwardContext& context,
                          const Tensor& hidden,
                          const Tensor& positions) const {
  const Tensor attended = self_attention_(context, hidden, positions);
  const Tensor normed = attention_result_norm_(ops::add(hidden, attended));
  return mlp_result_norm_(ops::add(normed, (*mlp_)(context, normed)));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_bert_layer(const LayerParts& parts) {
  return std::make_unique<BertLayer>(parts);
}

}  // namespace reprise::models
