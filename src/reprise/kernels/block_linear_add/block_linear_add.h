#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = residual + block_linear(x, weight, bias). The bits are those of launch_block_linear
/// followed by launch_add, except for the payload of NaNs: the product is rounded before the
/// addition.
bool launch_block_linear_add(device::Stream& stream,
                             const KernelTable& kernels,
                             const Tensor& x,         // int8 [num_tokens, 40 * B], dense
                             const Tensor& weight,    // int8 [out_features, W]
                             const Tensor& bias,      // [out_features] or undefined
                             const Tensor& residual,  // [num_tokens, out_features]
                             const Tensor& out);      // like residual, dense; may lie where it lies

}  // namespace reprise::kernels
