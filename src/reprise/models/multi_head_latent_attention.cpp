#include "reprise/models/multi_head_latent_attention.h"

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/models/qkv_rows.h"
#include "reprise/models/rope_table.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// The norms of latents do not follow `rms_norm_eps`. Source: transformers, modeling_deepseek_v2.py.
constexpr float kLatentNormEpsilon = 1e-6F;

attention::AttentionShape attention_shape(const weights::ModelConfig& config) {
  return {.num_heads = config.num_attention_heads,
          .num_kv_heads = 1,
          .head_dim = config.mla->key_size(),
          .value_dim = config.mla->kv_lora_rank,
          .scale = static_cast<float>(config.attention_scale.value_or(0))};
}

void append_rows(std::vector<int64_t>& rows, int64_t begin, int64_t count) {
  for (int64_t row = begin; row < begin + count; ++row) rows.push_back(row);
}

// Appends rows whose pairs rotate, in the order of the op `rope` (decision 28).
void append_rotated(std::vector<int64_t>& rows, const weights::ModelConfig& config, int64_t begin) {
  for (const int64_t row : rotated_head_order(config.rope, config.mla->qk_rope_head_dim)) {
    rows.push_back(begin + row);
  }
}

void append_query_rows(std::vector<int64_t>& rows, const weights::ModelConfig& config) {
  const weights::LatentAttentionConfig& mla = *config.mla;
  for (int64_t head = 0; head < config.num_attention_heads; ++head) {
    const int64_t begin = head * mla.qk_head_dim();
    append_rows(rows, begin, mla.qk_nope_head_dim);
    append_rotated(rows, config, begin + mla.qk_nope_head_dim);
  }
}

// Rows of kv_b: for each head the rows of its keys, or those of its values.
std::vector<int64_t> rows_of_heads(const weights::ModelConfig& config,
                                   int64_t begin,
                                   int64_t count) {
  const weights::LatentAttentionConfig& mla = *config.mla;
  std::vector<int64_t> rows;
  for (int64_t head = 0; head < config.num_attention_heads; ++head) {
    append_rows(rows, head * (mla.qk_nope_head_dim + mla.v_head_dim) + begin, count);
  }
  return rows;
}

}  // namespace

MultiHeadLatentAttention::MultiHeadLatentAttention(const LayerParts& parts)
    : sizes_(*parts.config.mla),
      num_heads_(parts.config.num_attention_heads),
      rope_table_(parts.rope_table),
      query_factors_(parts.query_rope_table),
      attention_(attention_shape(parts.config), parts.cache_index()) {
  const weights::ModelConfig& config = parts.config;
  const weights::DecoderTensors& names = parts.names;
  const auto weight_of = [&](std::string_view module) {
    return names.in_layer(parts.layer, module) + ".weight";
  };
  std::vector<int64_t> rows;
  if (has_query_latent()) {
    append_rows(rows, 0, sizes_.q_lora_rank);
  } else {
    append_query_rows(rows, config);
  }
  append_rows(rows, query_columns(), sizes_.kv_lora_rank);
  append_rotated(rows, config, query_columns() + sizes_.kv_lora_rank);
  query_and_latent_weight_ = parts.load_projection(
      {has_query_latent() ? names.q_a : names.q, names.kv_a}, {.rows = std::move(rows)});
  if (has_query_latent()) {
    query_norm_ = parts.parameters.load(weight_of(names.q_a_norm));
    std::vector<int64_t> query_rows;
    append_query_rows(query_rows, config);
    query_weight_ = parts.load_projection({names.q_b}, {.rows = std::move(query_rows)});
  }
  if (sizes_.index) index_.emplace(parts);
  latent_norm_ = parts.parameters.load(weight_of(names.kv_a_norm));
  const std::string kv_b = weight_of(names.kv_b);
  key_weight_ = parts.parameters.load(kv_b,
                                      {.rows = rows_of_heads(config, 0, sizes_.qk_nope_head_dim),
                                       .num_experts = num_heads_,
                                       .transposes_each = true,
                                       .name = kv_b + " (keys)"});
  value_weight_ = parts.parameters.load(
      kv_b,
      {.rows = rows_of_heads(config, sizes_.qk_nope_head_dim, sizes_.v_head_dim),
       .num_experts = num_heads_,
       .name = kv_b + " (values)"});
  o_ = {.weight = parts.load_projection({names.o}), .ranks = config.tensor_parallel_size};
}

int64_t MultiHeadLatentAttention::query_columns() const noexcept {
  return has_query_latent() ? sizes_.q_lora_rank : num_heads_ * sizes_.qk_head_dim();
}

Tensor MultiHeadLatentAttention::operator()(cudagraph::ForwardContext& context,
                                            const Tensor& hidden,
                                            const Tensor& positions) const {
  const Tensor first = project(hidden, query_and_latent_weight_);
  const auto part = [&](int64_t begin, int64_t size) { return ops::slice(first, 1, begin, size); };
  Tensor q = part(0, query_columns());
  attention::LatentAttention::Index index;
  if (has_query_latent()) {
    const Tensor query_latent = ops::rms_norm(q, query_norm_, kLatentNormEpsilon);
    q = project(query_latent, query_weight_);
    if (index_) index = (*index_)(hidden, query_latent, positions);
  }
  const Tensor rotated_key = part(query_columns() + sizes_.kv_lora_rank, sizes_.qk_rope_head_dim);
  if (query_factors_.defined()) q = grow_by_position(q, rotated_key, positions);
  const Tensor heads = ops::unflatten(q, num_heads_);
  const Tensor q_nope = ops::slice(heads, 2, 0, sizes_.qk_nope_head_dim);
  const Tensor q_pe = ops::slice(heads, 2, sizes_.qk_nope_head_dim, sizes_.qk_rope_head_dim);

  const Tensor latent =
      ops::rms_norm(part(query_columns(), sizes_.kv_lora_rank), latent_norm_, kLatentNormEpsilon);
  const Tensor k_pe = ops::unflatten(rotated_key, 1);
  // Without a rotation (Kimi Linear), these parts of query and key are used as they are.
  const auto [q_rope, k_rope] =
      rope_table_.defined() ? ops::rope(q_pe, k_pe, positions, rope_table_) : std::pair(q_pe, k_pe);

  const Tensor q_latent = ops::head_linear(q_nope, key_weight_);
  const Tensor attended = attention_(context, q_latent, q_rope, latent, k_rope, index);
  const Tensor values = ops::head_linear(attended, value_weight_);
  return project(context, ops::flatten(values), o_);
}

Tensor MultiHeadLatentAttention::grow_by_position(const Tensor& q,
                                                  const Tensor& key,
                                                  const Tensor& positions) const {
  const auto pairs = [](const Tensor& x) { return ops::unflatten(x, x.size(1) / kFactorRow); };
  // The op also needs a key; the result for it is not used.
  return ops::flatten(std::get<0>(ops::rope(pairs(q), pairs(key), positions, query_factors_)));
}

}  // namespace reprise::models
