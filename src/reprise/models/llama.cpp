#include <memory>
#include <optional>

#include "reprise/models/attention_block.h"
#include "reprise/models/feed_forward.h"
#include "reprise/models/layers.h"
#include "reprise/models/norm.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

std::optional<Norm> make_attention_norm(const LayerParts& parts) {
  if (!parts.names.has_attention_norm(parts.layer)) return std::nullopt;
  return Norm(parts, parts.names.attention_norm);
}

class LlamaLayer final : public DecoderLayer {
 public:
  explicit LlamaLayer(const LayerParts& parts);

  [[nodiscard]] Tensor forward(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor& positions) const override;
  [[nodiscard]] attention::AttentionLayer* attention() noexcept override {
    return &attention_->attention();
  }

 private:
  std::optional<Norm> attention_norm_;  // nothing: the layer reads its input as it is
  std::unique_ptr<AttentionBlock> attention_;
  Norm mlp_norm_;
  std::unique_ptr<FeedForward> mlp_;
};

LlamaLayer::LlamaLayer(const LayerParts& parts)
    : attention_norm_(make_attention_norm(parts)),
      attention_(make_attention_block(parts)),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_feed_forward(parts)) {}

Tensor LlamaLayer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  const Tensor normed = attention_norm_ ? (*attention_norm_)(hidden) : hidden;
  const Tensor attended = (*attention_)(context, normed, positions);
  const Tensor residual = ops::add(hidden, attended);
  const Tensor transformed = (*mlp_)(context, mlp_norm_(residual));
  return ops::add(residual, transformed);
}

}  // namespace

std::unique_ptr<DecoderLayer> make_llama_layer(const LayerParts& parts) {
  return std::make_unique<LlamaLayer>(parts);
}

}  // namespace reprise::models
