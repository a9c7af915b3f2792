#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out[r] = x[indices[r]], for any type. Serves `gather_rows`, and `embedding` with x as the table.
/// Indices must be inside x. An index outside gives a row of zeros, so no foreign memory is read.
bool launch_gather_rows(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,        // [rows, width], rows may be strided
                        const Tensor& indices,  // int32[num_rows]
                        const Tensor& out);     // [num_rows, width]

}  // namespace reprise::kernels
