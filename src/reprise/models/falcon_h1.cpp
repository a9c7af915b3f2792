#include "reprise/models/falcon_h1.h"

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor multiplied(const Tensor& x, double multiplier) {
  return scaled(x, static_cast<float>(multiplier));
}

}  // namespace

FalconH1Layer::FalconH1Layer(const LayerParts& parts)
    : multipliers_(parts.config.multipliers),
      norm_(parts, parts.names.attention_norm),
      attention_(parts),
      mixer_(parts),
      mlp_norm_(parts, parts.names.mlp_norm),
      mlp_(parts) {}

Tensor FalconH1Layer::forward(cudagraph::ForwardContext& context,
                              const Tensor& hidden,
                              const Tensor& positions) const {
  const Tensor normed = norm_(hidden);
  const Tensor scanned = mixer_(context, multiplied(normed, multipliers_.mixer_in), positions);
  const Tensor attended =
      attention_(context, multiplied(normed, multipliers_.attention_in), positions);
  const Tensor mixed = ops::add(multiplied(scanned, multipliers_.mixer_out),
                                multiplied(attended, multipliers_.attention_out));
  const Tensor residual = ops::add(hidden, mixed);
  const Tensor transformed = mlp_(context, mlp_norm_(residual));
  return ops::add(residual, multiplied(transformed, multipliers_.mlp_out));
}

}  // namespace reprise::models
