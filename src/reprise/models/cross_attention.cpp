#include "reprise/models/cross_attention.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

CrossAttention::CrossAttention(const LayerParts& parts)
    : num_heads_(parts.config.num_attention_heads),
      size_(parts.config.q_size()),
      q_(parts.load_linear(parts.config.qkv_bias, {parts.names.cross_q})),
      kv_(parts.load_linear(parts.config.qkv_bias, {parts.names.cross_k, parts.names.cross_v})),
      o_(parts.load_row_parallel(parts.config.o_bias, {parts.names.cross_o})),
      attention_({.num_heads = num_heads_,
                  .num_kv_heads = num_heads_,
                  .head_dim = parts.config.head_dim,
                  .is_bidirectional = true},
                 parts.cache_index()) {}

void CrossAttention::write(cudagraph::ForwardContext& context, const Tensor& encoded) const {
  const Tensor kv = project(context, encoded, kv_);
  attention_.write(context,
                   ops::unflatten(ops::slice(kv, 1, 0, size_), num_heads_),
                   ops::unflatten(ops::slice(kv, 1, size_, size_), num_heads_));
}

Tensor CrossAttention::operator()(cudagraph::ForwardContext& context, const Tensor& hidden) const {
  const Tensor q = ops::unflatten(project(context, hidden, q_), num_heads_);
  return project(context, ops::flatten(attention_(context, q)), o_);
}

}  // namespace reprise::models
