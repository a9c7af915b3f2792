#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out[t, h] = weight[h] @ x[t, h]: a matrix of its own for each head. The bits of a row do not
/// depend on the other rows of its batch.
bool launch_head_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,       // [num_tokens, heads, depth], rows may be strided
                        const Tensor& weight,  // [heads, columns, depth], dense
                        const Tensor& out);    // [num_tokens, heads, columns]

/// Oracle, in double.
void head_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& out);

}  // namespace reprise::kernels
