#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension, in float32,
/// rounded once. The variance is that of the differences from the mean, computed in a second pass
/// over the row: the difference of the mean square and the squared mean would lose precision if the
/// mean is large.
bool launch_layer_norm(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,  // [..., width], rows may be strided
                       const Tensor& weight,
                       const Tensor& bias,  // undefined = none
                       float epsilon,
                       const Tensor& out);

}  // namespace reprise::kernels
