#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = (up + 1) * gate * sigmoid(1.702 * gate) in float32, rounded once. The gate is at most
/// `limit`, and up is between -limit and limit.
bool launch_swigluoai_and_mul(device::Stream& stream,
                              const KernelTable& kernels,
                              const Tensor& x,  // [num_tokens, gate | up], rows may be strided
                              float limit,
                              const Tensor& out);  // [num_tokens, size of gate]

}  // namespace reprise::kernels
