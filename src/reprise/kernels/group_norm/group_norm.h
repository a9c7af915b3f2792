#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// A norm of each of the `groups` equal parts of a row, with the part of the weight that belongs
/// to it, and without a bias. The function is rms_norm or layer_norm.
/// \pre groups divides the width
bool launch_group_norm(device::Stream& stream,
                       const KernelTable& kernels,
                       OpFunction function,
                       const Tensor& x,       // [num_tokens, width], rows may be strided
                       const Tensor& weight,  // [width]
                       const Tensor& out,     // like x
                       float epsilon,
                       int64_t groups);

}  // namespace reprise::kernels
