#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Rotary embedding of q and k in float32: element i of a head is rotated with element i + head_dim
/// / 2. Positions must be inside the table; others are clamped to it.
bool launch_rope(device::Stream& stream,
                 const KernelTable& kernels,
                 const Tensor& q,          // [num_tokens, heads, head_dim], strided
                 const Tensor& k,          // [num_tokens, kv_heads, head_dim], strided
                 const Tensor& positions,  // int32[num_tokens]
                 const Tensor& cos_sin,    // float32[max_position, head_dim/2 cos | head_dim/2 sin]
                 const Tensor& q_out,      // like q, dense
                 const Tensor& k_out);     // like k, dense

}  // namespace reprise::kernels
