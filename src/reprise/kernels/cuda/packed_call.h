#pragma once

#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// \throws InvalidArgument for a type that products with packed weights do not have
[[nodiscard]] PackedType packed_type(DType dtype);

/// The operands of a product with a packed weight, borrowed for the call.
struct PackedCall {
  static inline const Tensor kLeftOut = {};

  const Tensor& x;       // in the form that the layout of the weight asks for
  const Tensor& weight;  // in panels of codes
  // Half as many columns as the weight has outputs, with silu_and_mul. It may have more rows than
  // x: their content is undefined.
  const Tensor& out;
  const Tensor& bias = kLeftOut;
  const Tensor& scale = kLeftOut;  // float32[rows of x] or [1], of int8 rows
  const Tensor& residual = kLeftOut;
  const Tensor& num_rows = kLeftOut;
};

}  // namespace reprise::kernels::cuda
