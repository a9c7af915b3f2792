#include "reprise/models/gpt_neox.h"

#include "reprise/models/llama.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {

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

std::unique_ptr<DecoderLayer> make_gpt_neox_layer(const LayerParts& parts) {
  if (parts.config.has_parallel_residual) return std::make_unique<GptNeoxLayer>(parts);
  return std::make_unique<LlamaLayer>(parts);
}

}  // namespace reprise::models
