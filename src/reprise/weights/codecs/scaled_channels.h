#pragma once

#include <memory>

#include "reprise/weights/config/model_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The source with Falcon-H1's multipliers of values, B and C applied to the weights of the
/// convolutions after them: convolving multiplied channels is the same as using multiplied weights.
/// Other sources are returned unchanged.
[[nodiscard]] std::unique_ptr<WeightSource> with_scaled_channels(
    std::unique_ptr<WeightSource> source, const ModelConfig& config);

}  // namespace reprise::weights
