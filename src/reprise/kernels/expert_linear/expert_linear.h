#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Row r of out is the linear() of a row of x with the weight of expert experts[r / K, r % K]: of
/// row r / K if x has a row for each token, of row r if x has a row for each expert of each token.
///
/// A block is some columns of one expert: it looks for the rows of its expert and multiplies them
/// together. The grid depends only on the shapes, and the bits of a row only on that row: not on
/// the choice of experts of other tokens, and not on their number.
bool launch_expert_linear(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& x,        // [num_tokens or num_tokens * K, depth]
    const Tensor& weight,   // [num_experts, columns, depth]
    const Tensor& bias,     // [num_experts, columns]; undefined = none
    const Tensor& experts,  // int32[num_tokens, K], each an expert or -1: a row of 0
    const Tensor& out);     // [num_tokens * K, columns]

/// The rows of the result for each row of x: K or 1.
[[nodiscard]] int64_t rows_per_x(const Tensor& x, const Tensor& experts);

/// Oracle, in double.
void expert_linear_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& experts,
                       const Tensor& out);

}  // namespace reprise::kernels
