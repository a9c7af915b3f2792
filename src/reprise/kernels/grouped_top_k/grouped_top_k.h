#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// How a token of DeepSeek's and similar models chooses its experts.
struct GroupedRouting {
  bool is_sigmoid = false;  // scores are sigmoids of logits; else they are the softmax
  bool divides = true;      // with a bias: the weights are divided by their sum
  int64_t top_k = 1;
  int64_t groups = 1;      // of neighbouring experts, all of one size
  int64_t top_groups = 1;  // groups from which a token may choose
  float scale = 1;         // of the weights
};

/// The experts of each row and their weights in float32, in the order in which they are chosen. Of
/// equal ones the lower expert or group comes first. All experts are valid even if logits are NaN.
///
/// With softmax a group counts as its best expert, with sigmoids as its two best ones. Without a
/// bias the weights are the scores. With a bias, experts are chosen by score plus bias, and the
/// weights are the scores divided by their sum, or the scores of sigmoids as they are. Sigmoids
/// need a bias.
/// \throws InvalidArgument if the groups do not divide the experts or have fewer than top_k, or if
/// there are more than kMaxExperts
bool launch_grouped_top_k(device::Stream& stream,
                          const KernelTable& kernels,
                          const GroupedRouting& routing,
                          const Tensor& logits,    // [num_tokens, num_experts], may be strided
                          const Tensor& bias,      // float32[num_experts], or undefined
                          const Tensor& weights,   // float32[num_tokens, top_k]
                          const Tensor& experts);  // int32[num_tokens, top_k]

}  // namespace reprise::kernels
