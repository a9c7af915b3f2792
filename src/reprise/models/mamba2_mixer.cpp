#include "reprise/models/mamba2_mixer.h"

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {

Mamba2Mixer::Mamba2Mixer(const LayerParts& parts)
    : sizes_(*parts.config.recurrent),
      gate_scale_(static_cast<float>(parts.config.multipliers.gate)),
      dt_scale_(static_cast<float>(parts.config.multipliers.time_steps)),
      norm_epsilon_(static_cast<float>(parts.config.norm_eps)),
      in_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_in)),
      conv_weight_(load_mixer(parts, "conv1d.weight")),
      a_log_(load_mixer(parts, "A_log", DType::f32)),
      d_(load_mixer(parts, "D", DType::f32)),
      dt_bias_(load_mixer(parts, "dt_bias", DType::f32)),
      out_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_out)),
      recurrence_(parts.cache_index()) {
  if (sizes_.conv_bias) conv_bias_ = load_mixer(parts, "conv1d.bias");
  if (sizes_.has_norm) norm_weight_ = load_mixer(parts, "norm.weight");
}

Tensor Mamba2Mixer::operator()(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor&) const {
  const int64_t values = sizes_.value_size();
  const int64_t conv = sizes_.conv_size();
  const int64_t group = sizes_.group_size();
  const Tensor projected = project(context, hidden, in_);
  const Tensor gate = scaled(ops::slice(projected, 1, 0, values), gate_scale_);
  const Tensor dt = scaled(ops::slice(projected, 1, values + conv, sizes_.num_heads), dt_scale_);
  const Tensor convolved = recurrence_.convolve(
      context, ops::slice(projected, 1, values, conv), conv_weight_, conv_bias_);
  const Tensor scanned =
      recurrence_.selective_scan(context,
                                 {.x = ops::slice(convolved, 1, 0, values),
                                  .dt = dt,
                                  .b = ops::slice(convolved, 1, values, group),
                                  .c = ops::slice(convolved, 1, values + group, group),
                                  .a_log = a_log_,
                                  .d = d_,
                                  .dt_bias = dt_bias_});
  return project(context, gate_and_norm(scanned, gate), out_);
}

Tensor Mamba2Mixer::gate_and_norm(const Tensor& scanned, const Tensor& gate) const {
  const auto norm = [this](const Tensor& x) {
    return ops::group_norm(x, norm_weight_, OpFunction::rms_norm, norm_epsilon_, sizes_.num_groups);
  };
  const auto mul_silu = [&](const Tensor& x) { return ops::mul_gate(x, gate, OpFunction::silu); };
  if (!norm_weight_.defined()) return mul_silu(scanned);
  if (sizes_.norms_before_gate) return mul_silu(norm(scanned));
  return norm(mul_silu(scanned));
}

}  // namespace reprise::models
