#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// What a product does with its sums before it stores them. The bits are those of separate launches
/// (but for the payload of a NaN), because each step is rounded to the model's type.
enum class ProductEpilogue : uint8_t {
  none,
  add,                           // residual + product
  silu_and_mul,                  // silu(gate) * up: the weight has the gates, then the ups
  silu_and_mul_quantize_blocks,  // silu_and_mul, then quantised in blocks; for weights in blocks
};

/// The operands of a product, borrowed for the call. An undefined tensor is left out.
struct LinearCall {
  static inline const Tensor kLeftOut = {};

  const Tensor& x;                    // [num_tokens, K], or in the form that the weight asks for
  const Tensor& weight;               // [N, K] in any layout
  const Tensor& out;                  // [num_tokens, ...], dense
  const Tensor& bias = kLeftOut;      // [N], or none
  const Tensor& scale = kLeftOut;     // float32[num_tokens] of int8 rows, for int8 panels
  const Tensor& residual = kLeftOut;  // like out, rows may be strided; out may lie where it lies
  const Tensor& num_rows = kLeftOut;  // int32[1], read when the work runs: only these rows are
                                      // computed, and out is float32
  ProductEpilogue epilogue = ProductEpilogue::none;
};

/// out = x @ weight^T + bias, then the epilogue. The layout of the weight, the type and the
/// epilogue determine the kernel. Elements and smaller floats are accumulated in float32, in an
/// order that depends only on K; sums of codes are exact within a block or, for int8 panels, over
/// the whole depth, and are scaled in float32. So a row has the same bits in any batch.
bool launch_linear(device::Stream& stream, const KernelTable& kernels, const LinearCall& call);

/// The grid and arguments of a product with the columns of `out`, for all layouts but blocks. The
/// epilogue may need several rows of the weight for each column.
struct LinearPlan {
  LinearArguments arguments;
  uint32_t num_blocks;
};
[[nodiscard]] LinearPlan plan_linear(const LinearCall& call, int weights_per_column = 1);

/// Sets the members that describe the memory layout of a weight.
void set_weight_layout(const Tensor& weight, LinearArguments& arguments);

/// Row r of out is the linear() of a row of x with the weight of expert experts[r / K, r % K]. This
/// is row r / K if x has a row for each token, and row r if x has a row for each expert of each
/// token.
///
/// A block of the grid has some columns of one expert: it finds the rows of this expert and
/// multiplies them together. With a weight in blocks and few rows, a block of the grid is instead
/// one row and some panels of its expert, so that all workers share the experts of a token. The
/// grid depends only on the shapes, and the bits of a row only on that row: neither on the experts
/// nor on the number of other tokens. They are the bits of linear().
bool launch_expert_linear(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& x,        // [num_tokens or num_tokens * K, depth], or quantised in blocks
    const Tensor& weight,   // [num_experts, columns, depth] in rows, or in blocks: then columns is
                            // a multiple of 16
    const Tensor& bias,     // [num_experts, columns]; undefined = none
    const Tensor& experts,  // int32[num_tokens, K], each an expert or -1: a row of 0
    const Tensor& out);     // [num_tokens * K, columns]

/// out[t, h] = weight[h] @ x[t, h]: each head has its own matrix. The bits of a row do not depend
/// on the other rows of its batch.
bool launch_head_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,       // [num_tokens, heads, depth], rows may be strided
                        const Tensor& weight,  // [heads, columns, depth], dense
                        const Tensor& out);    // [num_tokens, heads, columns]

/// The arguments of such a product, whose blocks have so many rows and columns at most. Borrows the
/// memory of the tensors.
[[nodiscard]] HeadLinearArguments head_linear_arguments(const Tensor& x,
                                                        const Tensor& weight,
                                                        const Tensor& out,
                                                        int rows_per_block,
                                                        int columns_per_block);

struct ScaledLinearCall {
  const Tensor& x;             // int8 or float8 [num_tokens, in_features], rows may be strided
  const Tensor& scale;         // float32[num_tokens], or [1]
  const Tensor& weight;        // [out_features, in_features], type of x
  const Tensor& weight_scale;  // float32[out_features]
  const Tensor& bias;          // [out_features] of out's type, or undefined
  const Tensor& out;           // [num_tokens, out_features], dense
};

/// out = ((x @ weight^T) * scale) * weight_scale + bias, in float32 in this order, rounded once.
///
/// The product of int8 is exact, in int32, and then rounded to float32. The product of float8 has
/// the bits of launch_linear with both operands widened to float32. A row has the same bits in any
/// batch. \throws InvalidArgument for in_features above 131071, whose int32 sums could overflow
bool launch_scaled_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const ScaledLinearCall& call);

/// Blocks of a row of activations that are quantised in blocks.
[[nodiscard]] int64_t num_activation_blocks(const Tensor& x);

/// The grid and arguments of a product with a weight in blocks. An output of `out` needs
/// `columns_per_output` outputs of the weight: 1, or 2 whose distance is half of the weight.
struct BlockLinearPlan {
  BlockLinearArguments arguments;
  uint32_t num_blocks;
};
[[nodiscard]] BlockLinearPlan plan_block_linear(const LinearCall& call, int columns_per_output);

}  // namespace reprise::kernels
