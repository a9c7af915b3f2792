#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

/// Products of rows with one scale each (launch_quantize_per_token) and a weight in int8 panels:
///
///     float32(x @ codes^T) * scale of the row * scale of the output + bias
///
/// in this order, each step rounded to float32, then rounded once to the type of out. The product
/// of the codes is exact, in int32. So all instruction sets compute the same bits, and a row has
/// the same bits in any batch.
namespace reprise::kernels {

struct Int8LinearCall {
  const Tensor& x;       // int8 [num_tokens, in_features], rows may be strided
  const Tensor& scale;   // float32[num_tokens]
  const Tensor& weight;  // i8_panels [out_features, in_features + kInt8TailBytes]
  const Tensor& bias;    // [out_features] of out's type, or undefined
  const Tensor& out;     // [num_tokens, out_features], dense
};
bool launch_int8_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Int8LinearCall& call);

/// The rows below num_rows[0], without a bias; out is float32.
bool launch_int8_lm_head(device::Stream& stream,
                         const KernelTable& kernels,
                         const Int8LinearCall& call,
                         const Tensor& num_rows);  // int32[1], read when the kernel runs

/// residual + int8_linear, with the bits of launch_int8_linear followed by launch_add.
bool launch_int8_linear_add(device::Stream& stream,
                            const KernelTable& kernels,
                            const Int8LinearCall& call,
                            const Tensor& residual);  // like out; out may lie where it lies

/// silu_and_mul of int8_linear, with the bits of the two launches one after the other. The weight
/// and the bias have twice as many outputs as out.
bool launch_int8_linear_silu_and_mul(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const Int8LinearCall& call);

}  // namespace reprise::kernels
