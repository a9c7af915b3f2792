#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/block_linear/block_linear_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = x @ weight^T + bias, where x was quantised by quantize_blocks and the weight stays packed.
/// The products of a block are exact; their sums are float32, over the blocks in order, so a row
/// has the same bits in any batch.
bool launch_block_linear(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,       // int8 [num_tokens, 40 * B], dense
                         const Tensor& weight,  // int8 [out_features, W], see block_panels.h
                         const Tensor& bias,    // [out_features] of out's type, or undefined
                         const Tensor& out);    // [num_tokens, out_features], dense

/// Blocks of a row of quantised activations.
[[nodiscard]] int64_t num_activation_blocks(const Tensor& x);

/// The grid and arguments of a product with a packed weight, for any epilogue. An output of `out`
/// needs `columns_per_output` outputs of the weight: 1, or 2 that lie half of the weight apart.
struct BlockLinearPlan {
  BlockLinearArguments arguments;
  uint32_t num_blocks;
};
[[nodiscard]] BlockLinearPlan plan_block_linear(const Tensor& x,
                                                const Tensor& weight,
                                                const Tensor& bias,
                                                const Tensor& out,
                                                int columns_per_output = 1);

/// Oracle, in double, over the dequantised operands.
void block_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);

}  // namespace reprise::kernels
