#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Each row of x times the sigmoid of its gate, in float32, rounded once.
bool launch_sigmoid_gate(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,     // [..., width], rows may be strided
                         const Tensor& gate,  // [..., 1]
                         const Tensor& out);  // like x

}  // namespace reprise::kernels
