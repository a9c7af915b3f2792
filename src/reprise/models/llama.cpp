#include "reprise/models/llama.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

LlamaLayer::LlamaLayer(const LayerParts& parts)
    : attention_norm_(parts, parts.names.attention_norm),
      attention_(make_attention_block(parts)),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_feed_forward(parts)) {}

Tensor LlamaLayer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  const Tensor attended = (*attention_)(context, attention_norm_(hidden), positions);
  const Tensor residual = ops::add(hidden, attended);
  const Tensor transformed = (*mlp_)(mlp_norm_(residual));
  return ops::add(residual, transformed);
}

}  // namespace reprise::models
