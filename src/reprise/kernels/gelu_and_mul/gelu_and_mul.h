#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = gelu(gate) * up in float32, rounded once, with the kernels gelu_and_mul or
/// gelu_tanh_and_mul of a table.
bool launch_gelu_and_mul(device::Stream& stream,
                         const FloatKernels& kernels,
                         const Tensor& x,     // [num_tokens, gate | up], rows may be strided
                         const Tensor& out);  // [num_tokens, size of gate]

}  // namespace reprise::kernels
