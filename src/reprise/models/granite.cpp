#include "reprise/models/granite.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

GraniteLayer::GraniteLayer(const LayerParts& parts)
    : residual_scale_(static_cast<float>(parts.config.residual_scale)),
      attention_norm_(parts, parts.names.attention_norm),
      attention_(make_attention_block(parts)),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(make_feed_forward(parts)) {}

Tensor GraniteLayer::forward(cudagraph::ForwardContext& context,
                             const Tensor& hidden,
                             const Tensor& positions) const {
  const Tensor attended = (*attention_)(context, attention_norm_(hidden), positions);
  const Tensor residual = ops::add(hidden, ops::scale(attended, residual_scale_));
  const Tensor transformed = (*mlp_)(context, mlp_norm_(residual));
  return ops::add(residual, ops::scale(transformed, residual_scale_));
}

}  // namespace reprise::models
