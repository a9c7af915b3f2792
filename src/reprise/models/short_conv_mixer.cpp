#include "reprise/models/short_conv_mixer.h"

#include "reprise/models/mixer_parts.h"

namespace reprise::models {

ShortConvMixer::ShortConvMixer(const LayerParts& parts)
    : in_(load_mixer_linear(parts, parts.config.recurrent->proj_bias, parts.names.mixer_in)),
      conv_weight_(load_mixer(parts, "conv.weight")),
      out_(load_mixer_linear(parts, parts.config.recurrent->proj_bias, parts.names.mixer_out)),
      recurrence_(parts.cache_index()) {
  if (parts.config.recurrent->conv_bias) conv_bias_ = load_mixer(parts, "conv.bias");
}

Tensor ShortConvMixer::operator()(cudagraph::ForwardContext& context,
                                  const Tensor& hidden,
                                  const Tensor&) const {
  const Tensor gated =
      recurrence_.gated_convolve(context, project(context, hidden, in_), conv_weight_, conv_bias_);
  return project(context, gated, out_);
}

}  // namespace reprise::models
