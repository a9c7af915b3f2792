#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = x * function(gate), element by element in float32, rounded once, where the function is
/// silu or sigmoid.
bool launch_mul_gate(device::Stream& stream,
                     const KernelTable& kernels,
                     OpFunction function,
                     const Tensor& x,     // [..., width], rows may be strided
                     const Tensor& gate,  // like x
                     const Tensor& out);  // like x

}  // namespace reprise::kernels
