#pragma once

#include "reprise/kernels/cuda/linear_launch.h"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// \throws InvalidArgument for a type that products with packed weights do not have
[[nodiscard]] PackedType packed_type(DType dtype);

/// The operands of a product with a packed weight, borrowed for the call.
struct PackedCall {
  static inline const Tensor kLeftOut = {};

  const Tensor& x;       // in the form that the layout of the weight asks for, or elements
  const Tensor& weight;  // in panels of codes
  // Half as many columns as the weight has outputs, with silu_and_mul. It may have more rows than
  // x: their content is undefined.
  const Tensor& out;
  const Tensor& bias = kLeftOut;
  const Tensor& scale = kLeftOut;  // float32[rows of x] or [1], of int8 rows
  const Tensor& residual = kLeftOut;
  const Tensor& num_rows = kLeftOut;
  NormCall norm = {.weight = kLeftOut, .epsilon = 0};  // of elements

  /// Whether the product quantises x itself.
  [[nodiscard]] bool has_elements() const {
    return activation_form(weight.layout().family) != ActivationForm::elements &&
           x.dtype() != DType::i8;
  }
  /// Whether the product norms x, quantises it, or both.
  [[nodiscard]] bool prepares_rows() const { return has_elements() || norm.weight.defined(); }
  /// The same product of rows that are prepared.
  [[nodiscard]] PackedCall with_rows(const Tensor& rows, const Tensor& scales) const {
    return {rows, weight, out, bias, scales, residual, num_rows};
  }
};

}  // namespace reprise::kernels::cuda
