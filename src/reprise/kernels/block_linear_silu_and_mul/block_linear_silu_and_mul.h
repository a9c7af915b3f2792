#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = silu_and_mul(block_linear(x, weight, bias)), with the bits of the two kernels.
bool launch_block_linear_silu_and_mul(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& x,       // int8 [num_tokens, 40 * B], dense
    const Tensor& weight,  // int8 [2 * intermediate_size, W]: gates, then ups
    const Tensor& bias,    // [2 * intermediate_size] or undefined
    const Tensor& out);    // [num_tokens, intermediate_size], dense

/// quantize_blocks of that, with the bits of the three kernels. `dtype` is the type in which the
/// kernels apart would store the product and the activation.
bool launch_block_linear_silu_and_mul_quantize_blocks(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& x,
    const Tensor& weight,
    const Tensor& bias,
    DType dtype,
    const Tensor& out);  // int8 [num_tokens, 40 * intermediate_size / 32], dense

}  // namespace reprise::kernels
