#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Row r of out is the block_linear() of a row of x with the weight of expert experts[r / K, r %
/// K]: of row r / K if x has a row for each token, of row r if x has a row for each expert of each
/// token.
///
/// Few rows: a block of the grid has one row and some panels of its expert, so all workers share
/// the experts that a token chose. Many rows: a block has some panels of one expert and multiplies
/// them with all rows of that expert. The choice depends only on shapes. The bits of a row are
/// those of block_linear(): they depend neither on the choice nor on other rows.
bool launch_block_expert_linear(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& x,        // int8 [num_tokens or num_tokens * K, 40 * B], dense
    const Tensor& weight,   // int8 [num_experts * columns, W], see block_panels.h
    const Tensor& bias,     // [num_experts, columns] of out's type; undefined = none
    const Tensor& experts,  // int32[num_tokens, K], each an expert or -1: a row of 0
    const Tensor& out);     // [num_tokens * K, columns]; columns is a multiple of 16

/// Oracle, in double, over the dequantised operands.
void block_expert_linear_ref(const Tensor& x,
                             const Tensor& weight,
                             const Tensor& bias,
                             const Tensor& experts,
                             const Tensor& out);

}  // namespace reprise::kernels
