#include "reprise/models/olmo2.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

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

}  // namespace reprise::models
