#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels::cuda {

/// The arguments of a product, borrowed for the call; undefined tensors are left out.
struct LinearCall {
  const Tensor& x;         // [num_tokens, in_features], rows may be strided
  const Tensor& weight;    // [out_features, in_features]
  const Tensor& bias;      // [out_features] or undefined
  const Tensor& residual;  // like out, rows may be strided, or undefined
  const Tensor& num_rows;  // int32[1], read when the work runs, or undefined: all
  const Tensor& out;       // [num_tokens, out_features], or half of them with silu_and_mul
};

/// Picks the kernel that fits type, depth, alignment and number of rows.
bool launch_linear(device::Stream& stream, const LinearKernels& kernels, const LinearCall& call);

}  // namespace reprise::kernels::cuda
