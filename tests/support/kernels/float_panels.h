#pragma once

#include <cstdint>
#include <random>

#include "reprise/tensor/block_panels.h"
#include "reprise/tensor/tensor.h"

/// Weights in panels of smaller floats (tensor/float_panels.h) for tests of kernels.
namespace reprise::kernels {

/// The type of a matrix of `dtype` in panels of a codec.
[[nodiscard]] TensorType float_panels_type(PanelFormat format,
                                           int64_t columns,
                                           int64_t depth,
                                           DType dtype);

/// Fills panels with all codes that are numbers, scales of both signs up to 0.02 and, for codes of
/// four bits, a table for each panel.
void fill_float_panels(const Tensor& weight, std::mt19937& random);

}  // namespace reprise::kernels
