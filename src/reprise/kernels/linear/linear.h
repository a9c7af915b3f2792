#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out = x @ weight^T + bias, accumulated in float32. The order of each output's sum depends on
/// in_features alone, so a row has the same bits in any batch.
bool launch_linear(device::Stream& stream,
                   const KernelTable& kernels,
                   const Tensor& x,       // [num_tokens, in_features], rows may be strided
                   const Tensor& weight,  // [out_features, in_features], may be in panels
                   const Tensor& bias,    // [out_features] or undefined
                   const Tensor& out);    // [num_tokens, out_features]

/// The grid and arguments of a matrix product with the columns of `out`, for any epilogue, which
/// may need several rows of the weight for each column.
struct LinearPlan {
  LinearArguments arguments;
  uint32_t num_blocks;
};
/// Says how the elements of a weight with rows of `depth` elements lie.
void set_weight_elements(const Tensor& weight, LinearArguments& arguments);
[[nodiscard]] LinearPlan plan_linear(const Tensor& x,
                                     const Tensor& weight,
                                     const Tensor& bias,
                                     const Tensor& out,  // [num_tokens, ...], dense
                                     int weights_per_column = 1);

/// Oracle, in double.
void linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);

}  // namespace reprise::kernels
