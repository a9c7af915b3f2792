#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = residual + linear(x, weight, bias). The bits are those of launch_linear followed by
/// launch_add, except for the payload of NaNs: the product is rounded before the addition.
bool launch_linear_add(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,         // [num_tokens, in_features], rows may be strided
                       const Tensor& weight,    // [out_features, in_features]
                       const Tensor& bias,      // [out_features] or undefined
                       const Tensor& residual,  // [num_tokens, out_features], rows may be strided
                       const Tensor& out);      // like residual, dense; may lie where it lies

}  // namespace reprise::kernels
