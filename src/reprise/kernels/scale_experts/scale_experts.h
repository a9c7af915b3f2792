#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// out[t, k] = weights[t, k] * scales[experts[t, k]], in float32. An expert of another rank, -1,
/// has the weight 0.
bool launch_scale_experts(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& weights,  // float32[num_tokens, K], dense
                          const Tensor& experts,  // int32[num_tokens, K], dense
                          const Tensor& scales,   // [num_experts], dense
                          const Tensor& out);     // as weights

}  // namespace reprise::kernels
