#include "reprise/models/self_attention.h"

#include <tuple>

#include "reprise/models/projection.h"
#include "reprise/models/qkv_rows.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

attention::AttentionShape attention_shape(const weights::ModelConfig& config, int64_t layer) {
  return {.num_heads = config.num_attention_heads,
          .num_kv_heads = config.num_key_value_heads,
          .head_dim = config.head_dim,
          .sliding_window = config.window_of_layer(layer).value_or(0),
          .scale = static_cast<float>(config.attention_scale.value_or(0)),
          .soft_cap = static_cast<float>(config.attention_soft_cap)};
}

}  // namespace

SelfAttention::SelfAttention(const LayerParts& parts)
    : num_heads_(parts.config.num_attention_heads),
      num_kv_heads_(parts.config.num_key_value_heads),
      q_size_(parts.config.q_size()),
      kv_size_(parts.config.kv_size()),
      qk_norm_(parts.config.qk_norm),
      rope_table_(parts.rope_table),
      attention_(attention_shape(parts.config, parts.layer), parts.layer) {
  const weights::ModelConfig& config = parts.config;
  const weights::DecoderTensors& names = parts.names;
  const Arrangement rows{.rows = qkv_rows(config, parts.layer)};
  if (names.qkv.empty()) {
    qkv_weight_ = parts.load_projection({names.q, names.k, names.v}, rows);
    qkv_bias_ = parts.load_bias(config.qkv_bias, {names.q, names.k, names.v}, rows);
  } else {
    qkv_weight_ = parts.load_projection({names.qkv}, rows);
    qkv_bias_ = parts.load_bias(config.qkv_bias, {names.qkv}, rows);
  }
  o_weight_ = parts.load_projection({names.o});
  o_bias_ = parts.load_bias(config.o_bias, {names.o});
  if (qk_norm_ == weights::QkNorm::none) return;
  const bool is_per_head = qk_norm_ == weights::QkNorm::per_head;
  const auto order = [&](int64_t num_heads) {
    return Arrangement{.rows = head_norm_rows(config, parts.layer, is_per_head ? 1 : num_heads)};
  };
  q_norm_.emplace(parts, names.q_norm, order(num_heads_));
  k_norm_.emplace(parts, names.k_norm, order(num_kv_heads_));
}

Tensor SelfAttention::operator()(cudagraph::ForwardContext& context,
                                 const Tensor& hidden,
                                 const Tensor& positions) const {
  const Tensor qkv = project(hidden, qkv_weight_, qkv_bias_);
  const auto heads_of = [&](int64_t begin, int64_t size, int64_t num_heads, const Norm* norm) {
    const Tensor part = ops::slice(qkv, 1, begin, size);
    return ops::unflatten(norm == nullptr ? part : (*norm)(part), num_heads);
  };
  const bool norms_all = has_norm(weights::QkNorm::all_heads);
  Tensor q = heads_of(0, q_size_, num_heads_, norms_all ? &*q_norm_ : nullptr);
  Tensor k = heads_of(q_size_, kv_size_, num_kv_heads_, norms_all ? &*k_norm_ : nullptr);
  const Tensor v = heads_of(q_size_ + kv_size_, kv_size_, num_kv_heads_, nullptr);
  if (has_norm(weights::QkNorm::per_head)) {
    q = (*q_norm_)(q);
    k = (*k_norm_)(k);
  }
  if (rope_table_.defined()) std::tie(q, k) = ops::rope(q, k, positions, rope_table_);
  const Tensor attended = attention_(context, q, k, v);
  return project(ops::flatten(attended), o_weight_, o_bias_);
}

}  // namespace reprise::models
