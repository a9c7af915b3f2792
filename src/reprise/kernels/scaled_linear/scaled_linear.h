#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

struct ScaledLinearCall {
  const Tensor& x;             // int8 or float8 [num_tokens, in_features], rows may be strided
  const Tensor& scale;         // float32[num_tokens], or [1]
  const Tensor& weight;        // [out_features, in_features], type of x
  const Tensor& weight_scale;  // float32[out_features]
  const Tensor& bias;          // [out_features] of out's type, or undefined
  const Tensor& out;           // [num_tokens, out_features], dense
};

/// out = ((x @ weight^T) * scale) * weight_scale + bias, in float32 in this order, rounded once.
///
/// The product of int8 is exact, in int32, and then rounded to float32. The product of float8 has
/// the bits of launch_linear with both operands widened to float32. A row has the same bits in any
/// batch. \throws InvalidArgument for in_features above 131071, whose int32 sums could overflow
bool launch_scaled_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const ScaledLinearCall& call);

/// Oracle, in double.
void scaled_linear_ref(const ScaledLinearCall& call);

}  // namespace reprise::kernels
