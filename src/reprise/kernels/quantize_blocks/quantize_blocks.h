#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Quantises rows to int8 in blocks of 32 elements, each with the scale max|x| / 127. Codes are
/// rounded to nearest even. A row has the same bits in any batch.
bool launch_quantize_blocks(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,     // [num_tokens, 32 * B], rows may be strided
                            const Tensor& out);  // int8 [num_tokens, 40 * B], ActivationBlocks

/// quantize_blocks(rms_norm(x, weight, epsilon)), with the bits of the two kernels.
bool launch_rms_norm_quantize_blocks(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const Tensor& x,       // [num_tokens, 32 * B]
                                     const Tensor& weight,  // [32 * B]
                                     float epsilon,
                                     const Tensor& out);  // int8 [num_tokens, 40 * B]

}  // namespace reprise::kernels
