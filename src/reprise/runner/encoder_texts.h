#pragma once

#include "reprise/runner/input_batch.h"

namespace reprise::engine {

/// The batch of an encoder: one whole text. `limits`: of the decoder's steps
[[nodiscard]] BatchLimits limits_of_encoder(const BatchLimits& limits) noexcept;

}  // namespace reprise::engine
