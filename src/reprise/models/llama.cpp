#include "reprise/models/llama.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

std::optional<Norm> make_attention_norm(const LayerParts& parts) {
  if (!parts.names.has_attention_norm(parts.layer)) return std::nullopt;
  return Norm(parts, parts.names.attention_norm);
}

}  // namespace

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

}  // namespace reprise::models
