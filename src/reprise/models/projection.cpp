#include "reprise/models/projection.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

bool is_in_blocks(const Tensor& weight) { return weight.dtype() == DType::i8; }

bool is_in_int8_rows(const Tensor& weight) { return weight.dtype() == DType::i8_panels; }

}  // namespace

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_in_int8_rows(weight)) {
    const auto [q, scale] = ops::quantize_per_token(x, DType::i8);
    return ops::int8_linear(q, scale, weight, bias, x.dtype());
  }
  if (!is_in_blocks(weight)) return ops::linear(x, weight, bias);
  return ops::block_linear(ops::quantize_blocks(x, DType::i8), weight, bias, x.dtype());
}

Tensor project(const cudagraph::ForwardContext& context,
               const Tensor& x,
               const Projection& projection) {
  Tensor product = project(x, projection.weight, projection.bias);
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
                         const Tensor& experts,
                         int64_t num_experts) {
  if (!is_in_blocks(weights)) return ops::expert_linear(x, weights, biases, experts);
  return ops::block_expert_linear(
      ops::quantize_blocks(x, DType::i8), weights, biases, experts, num_experts, x.dtype());
}

Tensor side_by_side(const Tensor& a, const Tensor& b) {
  return ops::flatten(ops::concat(ops::unflatten(a, 1), ops::unflatten(b, 1)));
}

Tensor project_to_logits(const Tensor& x, const Tensor& weight, const Tensor& num_logits) {
  if (is_in_int8_rows(weight)) {
    const auto [q, scale] = ops::quantize_per_token(x, DType::i8);
    return ops::int8_lm_head(q, scale, weight, num_logits);
  }
  if (!is_in_blocks(weight)) return ops::lm_head(x, weight, num_logits);
  return ops::block_lm_head(ops::quantize_blocks(x, DType::i8), weight, num_logits);
}

Tensor embed(const Tensor& ids, const Tensor& table, int64_t hidden_size, DType dtype) {
  if (table.dtype() == DType::bf16_panels) return ops::panel_embedding(ids, table);
  if (is_in_int8_rows(table)) return ops::int8_embedding(ids, table, hidden_size, dtype);
  if (!is_in_blocks(table)) return ops::embedding(ids, table);
  return ops::block_embedding(ids, table, hidden_size, dtype);
}

}  // namespace reprise::models
