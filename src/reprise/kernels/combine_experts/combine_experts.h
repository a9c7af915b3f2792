#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out[t] = the sum over k of weights[t, k] * x[t * K + k], in float32 in the order of k, rounded
/// once.
bool launch_combine_experts(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,        // [num_tokens * K, width], rows may be strided
                            const Tensor& weights,  // float32[num_tokens, K]
                            const Tensor& out);     // [num_tokens, width]

}  // namespace reprise::kernels
