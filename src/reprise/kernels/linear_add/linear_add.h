#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = residual + linear(x, weight, bias). The bits of launch_linear and launch_add after each
/// other (but for the payload of NaNs): the product is rounded before it is added.
bool launch_linear_add(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,         // [num_tokens, in_features], rows may be strided
                       const Tensor& weight,    // [out_features, in_features]
                       const Tensor& bias,      // [out_features] or undefined
                       const Tensor& residual,  // [num_tokens, out_features], rows may be strided
                       const Tensor& out);      // like residual, dense; may lie where it lies

}  // namespace reprise::kernels
