#include <memory>
#include <optional>

#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/models/self_attention.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

class GptNeoxLayer final : public DecoderLayer {
 public:
  explicit GptNeoxLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &self_attention_.attention();
  }

 private:
  Norm attention_norm_;
  SelfAttention self_attention_;
  std::optional<Norm> mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

GptNeoxLayer::GptNeoxLayer(const LayerParts& parts)
    : attention_norm_(parts, parts.names.attention_norm),
      self_attention_(parts),
      mlp_(make_feed_forward(parts)) {
  if (parts.config.has_parallel_norms) mlp_norm_.emplace(parts, parts.names.mlp_norm);
}

Tensor GptNeoxLayer::forward(cudagraph::ForwardContext& context,
                             const Tensor& hidden,
                             const Tensor& positions) const {
  const Tensor normed = attention_norm_(hidden);
  const Tensor attended = self_attention_(context, normed, positions);
  const Tensor transformed = (*mlp_)(context, mlp_norm_ ? (*mlp_norm_)(hidden) : normed);
  return ops::add(hidden, ops::add(attended, transformed));
}

}  // namespace

std::unique_ptr<DecoderLayer> make_gpt_neox_layer(const LayerParts& parts) {
  if (parts.config.has_parallel_residual) return std::make_unique<GptNeoxLayer>(parts);
  return make_llama_layer(parts);
}

}  // namespace reprise::models
