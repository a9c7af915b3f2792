#pragma once

#include "reprise/kernels/combine_experts/combine_experts.h"
#include "reprise/kernels/local_experts/local_experts.h"
#include "reprise/kernels/select_experts/select_experts.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of ops that choose experts and combine their results, in double.
namespace reprise::kernels {

void select_experts_ref(const ExpertChoice& choice,
                        const Tensor& logits,
                        const Tensor& bias,
                        const Tensor& weights,
                        const Tensor& experts);

void local_experts_ref(LocalExperts mine,
                       const Tensor& weights,
                       const Tensor& experts,
                       const Tensor& local_weights,
                       const Tensor& local_ids);

void combine_experts_ref(const Tensor& x, const Tensor& weights, const Tensor& out);

}  // namespace reprise::kernels
