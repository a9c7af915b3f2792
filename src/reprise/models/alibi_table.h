#pragma once

#include <cstdint>
#include <vector>

#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// ALiBi of the heads of this rank, [num_attention_heads, max_positions]: what is added to the
/// product of a query with the key of each position. Every head has a slope, by which the biases
/// grow with the position.
///
/// As in Falcon's class in Transformers, slope, position and bias are rounded to bfloat16, whatever
/// the type of the model is.
[[nodiscard]] std::vector<float> make_alibi_table(const weights::ModelConfig& config,
                                                  int64_t max_positions);

}  // namespace reprise::models
