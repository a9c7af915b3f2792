#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = x / sqrt(mean(x^2) + epsilon) * (1 + weight) over the last dimension, in float32, rounded
/// once. Gemma's checkpoints hold weights minus 1, so 1 is added here in float32: stored in
/// bfloat16, the sum would lose most bits of such a weight.
bool launch_gemma_rms_norm(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& x,  // [..., width], rows may be strided
                           const Tensor& weight,
                           float epsilon,
                           const Tensor& out);

}  // namespace reprise::kernels
