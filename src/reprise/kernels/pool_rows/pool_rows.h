#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// One row of float32 for each of the first num_rows[0] requests; later rows become zeros. Request
/// r has the rows of x behind ends[r - 1], or from 0 on, up to ends[r]. The function is `last`,
/// `cls` (its first row) or `mean`, which is summed in the order of the rows.
bool launch_pool_rows(device::Stream& stream,
                      const KernelTable& kernels,
                      OpFunction function,
                      const Tensor& x,         // [num_tokens, width], rows may be strided
                      const Tensor& ends,      // int32[num_reqs]
                      const Tensor& num_rows,  // int32[1]
                      const Tensor& out);      // float32[num_reqs, width]

}  // namespace reprise::kernels
