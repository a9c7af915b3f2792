#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Each row of `out` is a row of a, then the same row of b.
bool launch_concat(device::Stream& stream,
                   const KernelTable& kernels,
                   const Tensor& a,     // [num_tokens, heads, width of a], rows may be strided
                   const Tensor& b,     // [num_tokens, heads, width of b], rows may be strided
                   const Tensor& out);  // [num_tokens, heads, the sum of both widths]

}  // namespace reprise::kernels
