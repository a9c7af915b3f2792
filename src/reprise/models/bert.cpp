#include "reprise/models/bert.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

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

}  // namespace reprise::models
