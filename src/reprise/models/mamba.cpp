#include "reprise/models/mamba.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

MambaLayer::MambaLayer(const LayerParts& parts)
    : norm_(parts, parts.names.attention_norm), mixer_(make_attention_block(parts)) {}

Tensor MambaLayer::forward(cudagraph::ForwardContext& context,
                           const Tensor& hidden,
                           const Tensor& positions) const {
  return ops::add(hidden, (*mixer_)(context, norm_(hidden), positions));
}

}  // namespace reprise::models
