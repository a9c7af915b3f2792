#include "reprise/models/self_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/models/gated_delta_net.h"
#include "reprise/models/kimi_delta_attention.h"
#include "reprise/models/mamba2_mixer.h"
#include "reprise/models/mamba_mixer.h"
#include "reprise/models/multi_head_latent_attention.h"
#include "reprise/models/projection.h"
#include "reprise/models/qkv_rows.h"
#include "reprise/models/short_conv_mixer.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor load_sinks(const LayerParts& parts) {
  if (!parts.config.has_sinks(parts.layer)) return {};
  return parts.parameters.load(parts.names.in_layer(parts.layer, parts.names.sinks));
}

// The scale of keys or values in a float8 cache, which calibrated checkpoints store: "k_scale" or
// "v_scale" of the attention, of the projection, or the projection's "output_scale".
std::optional<float> find_cache_scale(const LayerParts& parts,
                                      std::string_view projection,
                                      std::string_view scale) {
  const std::string projected = parts.names.in_layer(parts.layer, projection);
  const std::string attention = projected.substr(0, projected.rfind('.'));
  for (const std::string& name : {fmt::format("{}.{}", attention, scale),
                                  fmt::format("{}.{}", projected, scale),
                                  fmt::format("{}.output_scale", projected),
                                  fmt::format("{}.kv_scale", attention)}) {
    const std::optional<float> number = parts.parameters.find_number(name);
    if (!number) continue;
    if (std::isfinite(*number) && *number > 0) return number;
    throw FileError("E_VALUE",
                    "the checkpoint",
                    name,
                    fmt::format("is {}, a scale must be a positive number", *number));
  }
  return std::nullopt;
}

// 0: the default, which follows from the size of a head.
float scale_of_scores(const weights::ModelConfig& config, int64_t layer) {
  if (!config.divides_scores_by_layer) {
    return static_cast<float>(config.attention_scale.value_or(0));
  }
  const double whole =
      config.attention_scale.value_or(1 / std::sqrt(static_cast<double>(config.head_dim)));
  return static_cast<float>(whole / static_cast<double>(layer + 1));
}

attention::AttentionShape attention_shape(const LayerParts& parts) {
  const weights::ModelConfig& config = parts.config;
  const weights::DecoderTensors& names = parts.names;
  const bool is_fused = !names.qkv.empty();
  const auto k_scale = find_cache_scale(parts, is_fused ? names.qkv : names.k, "k_scale");
  const auto v_scale = find_cache_scale(parts, is_fused ? names.qkv : names.v, "v_scale");
  const int64_t layer = parts.layer;
  const weights::KeyValueHeads heads = config.heads_of_layer(layer);
  // As in vLLM, if one of the two scales is missing, the other one serves both.
  return {.num_heads = config.query_heads_of_layer(layer),
          .num_kv_heads = heads.count,
          .head_dim = heads.head_dim,
          .sliding_window = config.window_of_layer(layer).value_or(0),
          .chunk_size = config.chunk_of_layer(layer).value_or(0),
          .scale = scale_of_scores(config, layer),
          .soft_cap = static_cast<float>(config.attention_soft_cap),
          .k_scale = k_scale.value_or(v_scale.value_or(1.0F)),
          .v_scale = v_scale.value_or(k_scale.value_or(1.0F)),
          .is_bidirectional = config.is_encoder};
}

}  // namespace

SelfAttention::SelfAttention(const LayerParts& parts)
    : num_heads_(parts.config.query_heads_of_layer(parts.layer)),
      num_kv_heads_(parts.config.heads_of_layer(parts.layer).count),
      q_size_(num_heads_ * parts.config.heads_of_layer(parts.layer).head_dim),
      kv_size_(num_kv_heads_ * parts.config.heads_of_layer(parts.layer).head_dim),
      qk_norm_(parts.config.qk_norm),
      rope_table_(parts.rope_table),
      query_rope_table_(parts.query_rope_table),
      rotates_(parts.config.rotates(parts.layer)),
      norms_rotated_(parts.config.norms_rotated_heads),
      norm_eps_(static_cast<float>(parts.config.norm_eps)),
      has_unit_qk_norm_(parts.config.has_unit_qk_norm && rotates_),
      projected_(projected_of(parts)),
      values_{.has_norm = parts.config.has_value_norm && projected_ != Projected::q,
              .dim = parts.config.value_dim_of_layer(parts.layer),
              .scale = static_cast<float>(parts.config.value_scale)},
      gates_{.are_behind_q = parts.config.has_attention_gate, .of_heads = {}},
      qkv_clip_(static_cast<float>(parts.config.qkv_clip)),
      attention_(
          attention_shape(parts), parts.cache_index(), load_sinks(parts), parts.position_biases) {
  const weights::ModelConfig& config = parts.config;
  const weights::DecoderTensors& names = parts.names;
  load_qkv(parts);
  o_ = parts.load_row_parallel(config.o_bias, {names.o});
  if (config.has_head_gates) gates_.of_heads = parts.load_projection({names.head_gates});
  if (has_unit_qk_norm_ || values_.has_norm) {
    unit_norm_ = parts.parameters.add_buffer(
        fmt::format("unit_norm.{}", parts.layer),
        {parts.parameters.dtype(), {config.heads_of_layer(parts.layer).head_dim}});
  }
  if (qk_norm_ == weights::QkNorm::none) return;
  if (qk_norm_ == weights::QkNorm::own_per_head) {
    const std::vector<int64_t> order = head_norm_rows(config, parts.layer, 1);
    norms_.q_heads.emplace(parts, names.q_norm, num_heads_, order);
    norms_.k_heads.emplace(parts, names.k_norm, num_kv_heads_, order);
    return;
  }
  const bool is_per_head = qk_norm_ == weights::QkNorm::per_head;
  const auto order = [&](int64_t num_heads) {
    return Arrangement{.rows = head_norm_rows(config, parts.layer, is_per_head ? 1 : num_heads)};
  };
  norms_.q.emplace(parts, names.q_norm, order(num_heads_));
  if (projected_ != Projected::q) norms_.k.emplace(parts, names.k_norm, order(num_kv_heads_));
}

void SelfAttention::load_qkv(const LayerParts& parts) {
  const weights::DecoderTensors& names = parts.names;
  const bool has_bias = parts.config.qkv_bias;
  const Arrangement rows{.rows = qkv_rows(parts.config, parts.layer)};
  if (!names.qkv.empty()) {
    qkv_ = parts.load_linear(has_bias, {names.qkv}, rows);
  } else if (projected_ == Projected::q_k_and_v) {
    qkv_ = parts.load_linear(has_bias, {names.q, names.k, names.v}, rows);
  } else {
    REPRISE_ASSERT(rows.rows.empty(), "an order of rows is only supported for q, k and v together");
    qkv_ = projected_ == Projected::q ? parts.load_linear(has_bias, {names.q})
                                      : parts.load_linear(has_bias, {names.q, names.k});
  }
}

SelfAttention::Projected SelfAttention::projected_of(const LayerParts& parts) {
  if (parts.config.shares_kv(parts.layer)) return Projected::q;
  return parts.config.has_value_projection(parts.layer) ? Projected::q_k_and_v : Projected::q_and_k;
}

Tensor SelfAttention::operator()(cudagraph::ForwardContext& context,
                                 const Tensor& hidden,
                                 const Tensor& positions) const {
  const Tensor qkv = project(context, hidden, qkv_);
  if (projected_ == Projected::q) return attend_to_shared(context, qkv, positions);
  const bool norms_all = has_norm(weights::QkNorm::all_heads);
  const auto normed = [&](const Tensor& part,
                          const std::optional<Norm>& of_all_heads,
                          const std::optional<HeadNorms>& of_each_head) {
    if (of_each_head) return (*of_each_head)(part);
    return norms_all ? (*of_all_heads)(part) : part;
  };
  const auto heads_of = [&](const Tensor& part, int64_t num_heads) {
    return ops::unflatten(qkv_clip_ > 0 ? ops::clamp(part, -qkv_clip_, qkv_clip_) : part,
                          num_heads);
  };
  const auto slice = [&](int64_t begin, int64_t size) { return ops::slice(qkv, 1, begin, size); };
  Tensor q = heads_of(normed(slice(0, q_size_), norms_.q, norms_.q_heads), num_heads_);
  Tensor k = heads_of(normed(slice(q_size_, kv_size_), norms_.k, norms_.k_heads), num_kv_heads_);
  const int64_t values = projected_ == Projected::q_k_and_v ? q_size_ + kv_size_ : q_size_;
  Tensor v = heads_of(slice(values, num_kv_heads_ * values_.dim), num_kv_heads_);
  if (values_.has_norm) v = ops::gemma_rms_norm(v, unit_norm_, norm_eps_);
  const auto norm_heads = [&] {
    q = (*norms_.q)(q);
    k = (*norms_.k)(k);
  };
  const bool norms_heads = has_norm(weights::QkNorm::per_head);
  if (norms_heads && !norms_rotated_) norm_heads();
  if (has_unit_qk_norm_) {
    // A rotation changes no mean square, so the norm may come before it.
    q = ops::gemma_rms_norm(q, unit_norm_, norm_eps_);
    k = ops::gemma_rms_norm(k, unit_norm_, norm_eps_);
  }
  if (rope_table_.defined()) {
    const auto [rotated_q, rotated_k] = ops::rope(q, k, positions, rope_table_);
    q = query_rope_table_.defined() ? std::get<0>(ops::rope(q, k, positions, query_rope_table_))
                                    : rotated_q;
    if (rotates_) k = rotated_k;
  }
  if (norms_heads && norms_rotated_) norm_heads();
  Tensor results = attention_(context, q, k, as_wide_as(k, v));
  if (gates_.of_heads.defined()) {
    results =
        ops::sigmoid_gate(results, ops::unflatten(project(hidden, gates_.of_heads), num_heads_));
  }
  const Tensor attended = of_values(results);
  if (!gates_.are_behind_q) return project(context, attended, o_);
  const Tensor gate = ops::slice(qkv, 1, q_size_ + 2 * kv_size_, q_size_);
  return project(context, ops::mul_gate(attended, gate, OpFunction::sigmoid), o_);
}

Tensor SelfAttention::as_wide_as(const Tensor& k, const Tensor& v) const {
  const int64_t rest = k.size(2) - values_.dim;
  return rest == 0 ? v : ops::concat(v, ops::scale(ops::slice(k, 2, 0, rest), 0));
}

Tensor SelfAttention::of_values(const Tensor& attended) const {
  const bool is_wider = values_.dim < attended.size(2);
  if (!is_wider && values_.scale == 1) return ops::flatten(attended);
  // The op's result is dense, the slice's is not.
  const Tensor values = is_wider ? ops::slice(attended, 2, 0, values_.dim) : attended;
  return ops::flatten(ops::scale(values, values_.scale));
}

Tensor SelfAttention::attend_to_shared(cudagraph::ForwardContext& context,
                                       const Tensor& projected,
                                       const Tensor& positions) const {
  // The op also rotates keys. As a key it gets one head of the projection's result, which the norm
  // of q has already read.
  Tensor q = (*norms_.q)(ops::unflatten(projected, num_heads_));
  if (rope_table_.defined()) {
    const Tensor unused = ops::unflatten(ops::slice(projected, 1, 0, q_size_ / num_heads_), 1);
    q = std::get<0>(ops::rope(q, unused, positions, rope_table_));
  }
  return project(context, ops::flatten(attention_(context, q, {}, {})), o_);
}

std::unique_ptr<AttentionBlock> make_attention_block(const LayerParts& parts) {
  if (parts.config.is_recurrent_layer(parts.layer)) {
    switch (parts.config.recurrent->recurrence) {
      case weights::Recurrence::mamba1:
        return std::make_unique<MambaMixer>(parts);
      case weights::Recurrence::mamba2:
        return std::make_unique<Mamba2Mixer>(parts);
      case weights::Recurrence::gated_delta_net:
        if (parts.config.recurrent->has_key_steps) {
          return std::make_unique<KimiDeltaAttention>(parts);
        }
        return std::make_unique<GatedDeltaNet>(parts);
      case weights::Recurrence::short_conv:
        return std::make_unique<ShortConvMixer>(parts);
    }
  }
  if (parts.config.mla) return std::make_unique<MultiHeadLatentAttention>(parts);
  return std::make_unique<SelfAttention>(parts);
}

}  // namespace reprise::models
