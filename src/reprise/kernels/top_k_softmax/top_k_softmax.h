#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The softmax of which a chosen expert's weight is a part; or none, and every weight is 1.
enum class RoutingSoftmax : uint8_t { over_all_experts, over_chosen_experts, none };

/// The experts of the top_k largest logits of each row, largest first, and their weights in
/// float32. Of equal logits the lower expert comes first. The number of experts of a row never
/// depends on its values, and every expert is a valid one even if logits are NaN.
/// \throws InvalidArgument if there are fewer experts than top_k or more than kMaxExperts
bool launch_top_k_softmax(device::Stream& stream,
                          const KernelTable& kernels,
                          RoutingSoftmax softmax,
                          const Tensor& logits,    // [num_tokens, num_experts], rows may be strided
                          const Tensor& weights,   // float32[num_tokens, top_k]
                          const Tensor& experts);  // int32[num_tokens, top_k]

}  // namespace reprise::kernels
