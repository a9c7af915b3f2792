#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = silu(gate) * up, where silu(x) = x / (1 + exp(-x)), in float32, rounded once.
bool launch_silu_and_mul(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,     // [num_tokens, gate | up], rows may be strided
                         const Tensor& out);  // [num_tokens, size of gate]

}  // namespace reprise::kernels
