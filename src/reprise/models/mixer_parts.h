#pragma once

#include <optional>
#include <string_view>

#include "reprise/models/layer_parts.h"
#include "reprise/tensor/ops.h"

/// Loading the parts of layers of linear attention.
namespace reprise::models {

/// factor * x; returns x itself if the factor is 1.
[[nodiscard]] inline Tensor scaled(const Tensor& x, float factor) {
  return factor == 1 ? x : ops::scale(x, factor);
}

/// One tensor of the layer's mixer; in the type `dtype`, or in that of the model.
[[nodiscard]] Tensor load_mixer(const LayerParts& parts,
                                std::string_view name,
                                std::optional<DType> dtype = {});

/// A projection of the mixer, with the adapters that may change it.
[[nodiscard]] Projection load_mixer_linear(const LayerParts& parts,
                                           bool has_bias,
                                           std::string_view module);

}  // namespace reprise::models
