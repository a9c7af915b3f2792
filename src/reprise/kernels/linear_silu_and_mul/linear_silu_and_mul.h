#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = silu_and_mul(linear(x, weight, bias)), with the bits of the two launches after each other:
/// gate and up are rounded before silu. The kernel takes LinearArguments with the columns of out;
/// weight and bias have twice as many.
bool launch_linear_silu_and_mul(device::Stream& stream,
                                const KernelTable& kernels,
                                const Tensor& x,  // [num_tokens, in_features], rows may be strided
                                const Tensor& weight,  // [gate | up, in_features]
                                const Tensor& bias,    // [gate | up] or undefined
                                const Tensor& out);    // [num_tokens, size of gate]

}  // namespace reprise::kernels
