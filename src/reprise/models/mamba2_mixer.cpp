#include "reprise/models/mamba2_mixer.h"

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {

Mamba2Mixer::Mamba2Mixer(const LayerParts& parts)
    : sizes_(*parts.config.recurrent),
      norm_epsilon_(static_cast<float>(parts.config.norm_eps)),
      in_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_in)),
      conv_weight_(load_mixer(parts, "conv1d.weight")),
      a_log_(load_mixer(parts, "A_log", DType::f32)),
      d_(load_mixer(parts, "D", DType::f32)),
      dt_bias_(load_mixer(parts, "dt_bias", DType::f32)),
      norm_weight_(load_mixer(parts, "norm.weight")),
      out_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_out)),
      recurrence_(parts.cache_index()) {
  if (sizes_.conv_bias) conv_bias_ = load_mixer(parts, "conv1d.bias");
}

Tensor Mamba2Mixer::operator()(cudagraph::ForwardContext& context,
                               const Tensor& hidden,
                               const Tensor&) const {
  const int64_t values = sizes_.value_size();
  const int64_t conv = sizes_.conv_size();
  const int64_t group = sizes_.group_size();
  const Tensor projected = project(hidden, in_);
  const Tensor gate = ops::slice(projected, 1, 0, values);
  const Tensor dt = ops::slice(projected, 1, values + conv, sizes_.num_heads);
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
  const Tensor normed = ops::group_rms_norm(
      ops::mul_silu(scanned, gate), norm_weight_, norm_epsilon_, sizes_.num_groups);
  return project(normed, out_);
}

}  // namespace reprise::models
