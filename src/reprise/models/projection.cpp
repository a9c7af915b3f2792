#include "reprise/models/projection.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

bool is_packed_weight(const Tensor& weight) { return weight.dtype() == DType::i8; }

}  // namespace

Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!is_packed_weight(weight)) return ops::linear(x, weight, bias);
  return ops::block_linear(ops::quantize_blocks(x, DType::i8), weight, bias, x.dtype());
}

Tensor project_to_logits(const Tensor& x, const Tensor& weight, const Tensor& num_logits) {
  if (!is_packed_weight(weight)) return ops::lm_head(x, weight, num_logits);
  return ops::block_lm_head(ops::quantize_blocks(x, DType::i8), weight, num_logits);
}

Tensor embed(const Tensor& ids, const Tensor& table, int64_t hidden_size, DType dtype) {
  if (!is_packed_weight(table)) return ops::embedding(ids, table);
  return ops::block_embedding(ids, table, hidden_size, dtype);
}

}  // namespace reprise::models
