#include "reprise/models/bart.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

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

}  // namespace reprise::models
