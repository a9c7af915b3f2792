#pragma once

#include <cstdint>
#include <vector>

#include "reprise/weights/rope_parameters.h"

namespace reprise::models {

/// cos
/// sin of every position: row p holds head_dim/2 cosines and head_dim/2 sines of p * frequency_i.
/// Angles are float32 products, as in the reference implementation. Frequencies follow Hugging Face
/// for the types standard, linear and llama3.
[[nodiscard]] std::vector<float> make_rope_table(const weights::RopeParameters& rope,
                                                 int64_t head_dim,
                                                 int64_t max_positions);

}  // namespace reprise::models
