#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out[t] = x[t] * sigmoid(gate[t]) in float32, rounded once.
bool launch_sigmoid_gate(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,     // [num_tokens, width], rows may be strided
                         const Tensor& gate,  // [num_tokens, 1]
                         const Tensor& out);  // like x

}  // namespace reprise::kernels
