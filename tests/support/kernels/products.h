#pragma once

#include "reprise/kernels/linear/linear.h"

/// Matrix products for tests: launches by the names of their ops, and reference implementations.
namespace reprise::kernels {

inline bool launch_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,
                          const Tensor& weight,
                          const Tensor& bias,
                          const Tensor& out,
                          const Tensor& scale = {}) {
  return launch_linear(
      stream, kernels, {.x = x, .weight = weight, .out = out, .bias = bias, .scale = scale});
}

inline bool launch_linear_add(device::Stream& stream,
                              const KernelTable& kernels,
                              const Tensor& x,
                              const Tensor& weight,
                              const Tensor& bias,
                              const Tensor& residual,
                              const Tensor& out,
                              const Tensor& scale = {}) {
  return launch_linear(stream,
                       kernels,
                       {.x = x,
                        .weight = weight,
                        .out = out,
                        .bias = bias,
                        .scale = scale,
                        .residual = residual,
                        .epilogue = ProductEpilogue::add});
}

inline bool launch_linear_silu_and_mul(device::Stream& stream,
                                       const KernelTable& kernels,
                                       const Tensor& x,
                                       const Tensor& weight,
                                       const Tensor& bias,
                                       const Tensor& out,
                                       const Tensor& scale = {}) {
  return launch_linear(stream,
                       kernels,
                       {.x = x,
                        .weight = weight,
                        .out = out,
                        .bias = bias,
                        .scale = scale,
                        .epilogue = ProductEpilogue::silu_and_mul});
}

inline bool launch_linear_silu_and_mul_quantize_blocks(device::Stream& stream,
                                                       const KernelTable& kernels,
                                                       const Tensor& x,
                                                       const Tensor& weight,
                                                       const Tensor& bias,
                                                       const Tensor& out) {
  return launch_linear(stream,
                       kernels,
                       {.x = x,
                        .weight = weight,
                        .out = out,
                        .bias = bias,
                        .epilogue = ProductEpilogue::silu_and_mul_quantize_blocks});
}

inline bool launch_lm_head(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& x,
                           const Tensor& weight,
                           const Tensor& num_rows,
                           const Tensor& out,
                           const Tensor& scale = {}) {
  return launch_linear(
      stream,
      kernels,
      {.x = x, .weight = weight, .out = out, .scale = scale, .num_rows = num_rows});
}

// The references compute in double. Weights may have any layout, and x the form that this layout
// requires.
void linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out);
void lm_head_ref(const Tensor& x, const Tensor& weight, const Tensor& num_rows, const Tensor& out);
void expert_linear_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& experts,
                       const Tensor& out);
void head_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& out);
void scaled_linear_ref(const ScaledLinearCall& call);

}  // namespace reprise::kernels
