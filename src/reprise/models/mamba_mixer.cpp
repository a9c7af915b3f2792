#include "reprise/models/mamba_mixer.h"

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {

MambaMixer::MambaMixer(const LayerParts& parts)
    : sizes_(*parts.config.recurrent),
      in_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_in)),
      conv_weight_(load_mixer(parts, "conv1d.weight")),
      x_(load_mixer_linear(parts, false, "x_proj")),
      dt_(load_mixer_linear(parts, false, "dt_proj")),
      a_log_(load_mixer(parts, "A_log", DType::f32)),
      d_(load_mixer(parts, "D", DType::f32)),
      dt_bias_(load_mixer(parts, "dt_proj.bias", DType::f32)),
      out_(load_mixer_linear(parts, sizes_.proj_bias, parts.names.mixer_out)),
      recurrence_(parts.cache_index()) {
  if (sizes_.conv_bias) conv_bias_ = load_mixer(parts, "conv1d.bias");
}

Tensor MambaMixer::operator()(cudagraph::ForwardContext& context,
                              const Tensor& hidden,
                              const Tensor&) const {
  const int64_t values = sizes_.value_size();
  const int64_t rank = sizes_.time_step_rank;
  const int64_t state = sizes_.state_size;
  const Tensor projected = project(context, hidden, in_);
  const Tensor gate = ops::slice(projected, 1, values, values);
  const Tensor convolved =
      recurrence_.convolve(context, ops::slice(projected, 1, 0, values), conv_weight_, conv_bias_);
  const Tensor selected = project(context, convolved, x_);
  const Tensor scanned =
      recurrence_.selective_scan(context,
                                 {.x = convolved,
                                  .dt = project(context, ops::slice(selected, 1, 0, rank), dt_),
                                  .b = ops::slice(selected, 1, rank, state),
                                  .c = ops::slice(selected, 1, rank + state, state),
                                  .a_log = a_log_,
                                  .d = d_,
                                  .dt_bias = dt_bias_});
  return project(context, ops::mul_gate(scanned, gate, OpFunction::silu), out_);
}

}  // namespace reprise::models
