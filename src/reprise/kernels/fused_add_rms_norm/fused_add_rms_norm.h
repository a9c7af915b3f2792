#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// sum = residual + x, rounded; normed = rms_norm(sum), in one pass over the rows. The bits are
/// those of launch_add followed by launch_rms_norm, except for the payload of NaNs.
bool launch_fused_add_rms_norm(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,         // [..., width], may be strided
                               const Tensor& residual,  // like x
                               const Tensor& weight,    // [width]
                               float epsilon,
                               const Tensor& normed,  // like x, dense
                               const Tensor& sum);    // like x, dense

}  // namespace reprise::kernels
