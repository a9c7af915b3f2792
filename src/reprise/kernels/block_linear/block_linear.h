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
                         const Tensor& weight,  // int8 [out_features, 34 * B or 18 * B]
                         const Tensor& bias,    // [out_features] of out's type, or undefined
                         const Tensor& out);    // [num_tokens, out_features], dense

struct BlockLinearPlan {
  BlockLinearArguments arguments;
  uint32_t num_blocks;
};
[[nodiscard]] BlockLinearPlan plan_block_linear(const Tensor& x,
                                                const Tensor& weight,
                                                const Tensor& bias,
                                                const Tensor& out);

/// The element of a packed weight, without its scale's rounding: code * scale.
[[nodiscard]] double panel_element(const Tensor& weight,
                                   PanelFormat format,
                                   int64_t row,
                                   int64_t element);

/// Oracle, in double, over the dequantised operands.
void block_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);

}  // namespace reprise::kernels
