#include "reprise/models/gemma.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

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

}  // namespace reprise::models
