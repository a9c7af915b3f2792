#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = a + b, elementwise; leading dimensions of a and b may be strided, out is dense.
bool launch_add(device::Stream& stream,
                const KernelTable& kernels,
                const Tensor& a,
                const Tensor& b,
                const Tensor& out);

}  // namespace reprise::kernels
