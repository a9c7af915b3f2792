#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = x / sqrt(mean(x^2) + epsilon) * weight over the last dimension, in float32, rounded once.
bool launch_rms_norm(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& x,       // [..., width], leading dimensions may be strided
                     const Tensor& weight,  // [width]
                     float epsilon,
                     const Tensor& out);  // like x, dense

/// The same with other kernels of RmsNormArguments. `op` names the op in errors.
bool launch_rms_norm(device::Stream& stream,
                     const FloatKernels& kernels,
                     const char* op,
                     const Tensor& x,
                     const Tensor& weight,
                     float epsilon,
                     const Tensor& out);

}  // namespace reprise::kernels
