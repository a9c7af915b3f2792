#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The recurrence of Mamba-1 and Mamba-2, one token after the other, in float32. With the time step
/// s = softplus(dt + dt_bias), the state h of a head becomes h * exp(-exp(a_log) * s) + s * x * b,
/// and the result is h * c + d * x. Neighbouring heads share b and c. Requests, slots and states
/// are used as by causal_conv1d.
struct SelectiveStateInputs {
  // [num_tokens, heads * head_dim]; rows may be strided, also those of the members below.
  const Tensor& x;
  const Tensor& dt;       // [num_tokens, heads]
  const Tensor& b;        // [num_tokens, groups * state_size]
  const Tensor& c;        // like b
  const Tensor& a_log;    // float32[heads], or [heads, state_size]
  const Tensor& d;        // float32[heads]
  const Tensor& dt_bias;  // float32[heads]
};
bool launch_selective_state_update(
    device::Stream& stream,
    const KernelTable& kernels,
    const SelectiveStateInputs& in,
    const StateOperands& states,  // state: [num_slots, heads, head_dim, state_size]
    const Tensor& out,            // like x
    const ChunkKernel& chunks = {});

}  // namespace reprise::kernels
