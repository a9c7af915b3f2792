#pragma once

#include <random>
#include <span>

#include "reprise/tensor/tensor.h"

/// Weights in int8 panels for tests of kernels.
namespace reprise::kernels {

/// The type of a matrix of `dtype` in int8 panels.
[[nodiscard]] TensorType int8_panels_type(int64_t columns, int64_t depth, DType dtype);

/// Fills panels with codes of all values, often the extremes, and with scales of both signs up to
/// 0.02.
void fill_int8_panels(const Tensor& weight, std::mt19937& random);

/// Return the code of an element, and the scale of a column.
[[nodiscard]] int int8_panel_code(const Tensor& weight, int64_t column, int64_t element);
[[nodiscard]] float int8_panel_scale(const Tensor& weight, int64_t column);

/// Writes the codes of a column and their sum. The column's scale does not change.
void set_int8_panel_column(const Tensor& weight, int64_t column, std::span<const int8_t> codes);

}  // namespace reprise::kernels
