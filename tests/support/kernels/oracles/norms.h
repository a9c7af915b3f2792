#pragma once

#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.h"
#include "reprise/kernels/gemma_rms_norm/gemma_rms_norm.h"
#include "reprise/kernels/group_norm/group_norm.h"
#include "reprise/kernels/layer_norm/layer_norm.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of norms, in double.
namespace reprise::kernels {

/// `origin` is added to each weight.
void rms_norm_ref(
    const Tensor& x, const Tensor& weight, float epsilon, const Tensor& out, double origin = 0);

/// Computes add_ref into `sum`, then rms_norm_ref of `sum`.
void fused_add_rms_norm_ref(const Tensor& x,
                            const Tensor& residual,
                            const Tensor& weight,
                            float epsilon,
                            const Tensor& normed,
                            const Tensor& sum);

void gemma_rms_norm_ref(const Tensor& x, const Tensor& weight, float epsilon, const Tensor& out);

void group_norm_ref(OpFunction function,
                    const Tensor& x,
                    const Tensor& weight,
                    const Tensor& out,
                    float epsilon,
                    int64_t groups);

void layer_norm_ref(
    const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon, const Tensor& out);

}  // namespace reprise::kernels
