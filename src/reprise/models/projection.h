#pragma once

#include <cstdint>

#include "reprise/tensor/tensor.h"

namespace reprise::models {

/// x @ weight^T + bias, for a weight of Parameters::load_projection(). A packed weight is
/// multiplied with x quantised in blocks of 32 elements.
[[nodiscard]] Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Logits of the rows below num_logits[0], for such a weight.
[[nodiscard]] Tensor project_to_logits(const Tensor& x,
                                       const Tensor& weight,
                                       const Tensor& num_logits);

/// Rows of such a weight, as numbers of `dtype`: [num_tokens, hidden_size].
[[nodiscard]] Tensor embed(const Tensor& ids,
                           const Tensor& table,
                           int64_t hidden_size,
                           DType dtype);

}  // namespace reprise::models
