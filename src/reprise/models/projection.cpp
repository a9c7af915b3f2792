#include "reprise/models/projection.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor product_of(const Tensor& x, const Projection& projection) {
  if (!projection.input_scale.defined()) return project(x, projection.weight, projection.bias);
  return ops::linear(ops::quantize_static(x, projection.input_scale, DType::i8),
                     projection.weight,
                     projection.bias,
                     projection.input_scale);
}

}  // namespace

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const ops::Activations activations = ops::activations_for(weight, x);
  return ops::linear(activations.x, weight, bias, activations.scale);
}

Tensor project(const cudagraph::ForwardContext& context,
               const Tensor& x,
               const Projection& projection) {
  Tensor product = product_of(x, projection);
  if (projection.ranks > 1) product = ops::all_reduce(product, projection.ranks);
  const lora::LoraLayer* lora = projection.lora;
  const Tensor& slots = context.adapter_slots;
  if (lora == nullptr || !slots.defined()) return product;
  const Tensor shrunk = ops::lora_shrink(x, lora->a, slots);
  return ops::lora_expand(product, shrunk, lora->b, lora->ends, slots);
}

Tensor project_by_expert(const Tensor& x,
                         const Tensor& weights,
                         const Tensor& biases,
                         const Tensor& experts) {
  return ops::expert_linear(ops::activations_for(weights, x).x, weights, biases, experts);
}

Tensor side_by_side(const Tensor& a, const Tensor& b) {
  return ops::flatten(ops::concat(ops::unflatten(a, 1), ops::unflatten(b, 1)));
}

Tensor project_to_logits(const Tensor& x, const Tensor& weight, const Tensor& num_logits) {
  const ops::Activations activations = ops::activations_for(weight, x);
  return ops::lm_head(activations.x, weight, num_logits, activations.scale);
}

}  // namespace reprise::models
