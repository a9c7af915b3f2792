#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = function(gate) * up in float32, rounded once, where the function is gelu or gelu_tanh.
bool launch_activation_and_mul(device::Stream& stream,
                               const KernelTable& kernels,
                               OpFunction function,
                               const Tensor& x,     // [num_tokens, gate | up], rows may be strided
                               const Tensor& out);  // [num_tokens, size of gate]

}  // namespace reprise::kernels
