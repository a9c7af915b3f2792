#pragma once

#include <cstdint>
#include <vector>

#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// ALiBi of the heads of this rank, [num_attention_heads, max_positions]: the numbers that are
/// added to the products of a query with the keys of all positions. Every head has a slope, by
/// which the biases grow with the position.
///
/// Like Falcon's class in Transformers, this rounds slope, position and bias to bfloat16, whatever
/// the type of the model is.
[[nodiscard]] std::vector<float> make_alibi_table(const weights::ModelConfig& config,
                                                  int64_t max_positions);

}  // namespace reprise::models
