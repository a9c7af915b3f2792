#pragma once

#include <memory>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The source with the multipliers of Falcon-H1's values, B and C in the weights of the
/// convolutions after them: a convolution of multiplied channels is one with multiplied weights.
/// Other sources are returned as they are.
[[nodiscard]] std::unique_ptr<WeightSource> with_scaled_channels(
    std::unique_ptr<WeightSource> source, const ModelConfig& config);

}  // namespace reprise::weights
