#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_function.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// How a token chooses its experts: the attributes of the op, which op_list.inl explains.
struct ExpertChoice {
  OpFunction function = OpFunction::softmax_of_all;
  int64_t top_k = 1;
  int64_t groups = 0;      // of neighbouring experts, all of one size
  int64_t top_groups = 0;  // groups from which a token may choose
  float scale = 1;         // of the weights
};

/// The experts of each row and their weights in float32, in the order in which they are chosen. Of
/// equal experts or groups the lower one comes first. The number of experts of a row never depends
/// on its values, and every expert is a valid one even if logits are NaN.
/// \throws InvalidArgument if there are fewer experts than top_k or more than kMaxExperts, if the
/// groups do not divide them, or if there are groups or a bias although logits decide
bool launch_select_experts(device::Stream& stream,
                           const KernelTable& kernels,
                           const ExpertChoice& choice,
                           const Tensor& logits,   // [num_tokens, num_experts], rows may be strided
                           const Tensor& bias,     // float32[num_experts], or undefined
                           const Tensor& weights,  // float32[num_tokens, top_k]
                           const Tensor& experts);  // int32[num_tokens, top_k]

}  // namespace reprise::kernels
