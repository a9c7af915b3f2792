#include "reprise/models/kimi_delta_attention.h"

#include <array>
#include <string>
#include <string_view>

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor load_convolutions(const LayerParts& parts) {
  const auto name = [&](std::string_view module) {
    return parts.names.in_mixer(parts.layer, module);
  };
  const std::array names = {
      name("q_conv1d.weight"), name("k_conv1d.weight"), name("v_conv1d.weight")};
  const std::array<std::string_view, 3> views = {names[0], names[1], names[2]};
  return parts.parameters.load_stacked(views);
}

}  // namespace

KimiDeltaAttention::KimiDeltaAttention(const LayerParts& parts)
    : sizes_(*parts.config.recurrent),
      norm_epsilon_(static_cast<float>(parts.config.norm_eps)),
      in_(parts.load_linear(false,
                            {"self_attn.q_proj",
                             "self_attn.k_proj",
                             "self_attn.v_proj",
                             "self_attn.b_proj",
                             "self_attn.f_a_proj",
                             "self_attn.g_a_proj"})),
      rate_weight_(parts.load_projection({"self_attn.f_b_proj"})),
      gate_weight_(parts.load_projection({"self_attn.g_b_proj"})),
      conv_weight_(load_convolutions(parts)),
      a_log_(load_mixer(parts, "A_log", DType::f32).with_layout({sizes_.num_heads}, {1}, 0)),
      dt_bias_(load_mixer(parts, "dt_bias", DType::f32)),
      norm_weight_(load_mixer(parts, "o_norm.weight")),
      out_(load_mixer_linear(parts, false, "o_proj")),
      recurrence_(parts.cache_index()) {}

Tensor KimiDeltaAttention::operator()(cudagraph::ForwardContext& context,
                                      const Tensor& hidden,
                                      const Tensor&) const {
  const int64_t size = sizes_.value_size();
  const int64_t heads = sizes_.num_heads;
  const int64_t head_dim = sizes_.head_dim;
  const Tensor projected = project(context, hidden, in_);
  const auto part = [&](int64_t begin, int64_t length) {
    return ops::slice(projected, 1, begin, length);
  };
  const Tensor convolved = recurrence_.convolve(context, part(0, 3 * size), conv_weight_, {});
  const Tensor rates = project(part(3 * size + heads, head_dim), rate_weight_);
  const Tensor gate = project(part(3 * size + heads + head_dim, head_dim), gate_weight_);
  const Tensor scanned = recurrence_.delta_scan(context,
                                                {.q = ops::slice(convolved, 1, 0, size),
                                                 .k = ops::slice(convolved, 1, size, size),
                                                 .v = ops::slice(convolved, 1, 2 * size, size),
                                                 .beta = part(3 * size, heads),
                                                 .dt = rates,
                                                 .a_log = a_log_,
                                                 .dt_bias = dt_bias_});
  const Tensor normed = ops::rms_norm(ops::unflatten(scanned, heads), norm_weight_, norm_epsilon_);
  return project(context, ops::mul_gate(ops::flatten(normed), gate, OpFunction::sigmoid), out_);
}

}  // namespace reprise::models
