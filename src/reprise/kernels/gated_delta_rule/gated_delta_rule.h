#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The recurrence of a gated delta net, one token after the other, in float32. Queries and keys are
/// divided by their length, queries also by sqrt(key_dim). The state h of a head is multiplied by
/// exp(-exp(a_log) * softplus(dt + dt_bias)). Then sigmoid(beta) of the difference between v and
/// h's answer to k is learned; the result is h's answer to q. `neighbours` heads that follow each
/// other share q and k; after the last group, the first group follows again. Requests, slots and
/// states are used as in causal_conv1d. With a time step for each element of a key, each row of h
/// is multiplied by its own factor. Source: Kimi Team, "Kimi Linear" (2025), section 3. Source:
/// Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024), equation 10.
struct DeltaRuleInputs {
  const Tensor& q;        // [num_tokens, groups * key_dim], rows may be strided, like those below
  const Tensor& k;        // like q
  const Tensor& v;        // [num_tokens, heads * value_dim]
  const Tensor& beta;     // [num_tokens, heads]
  const Tensor& dt;       // [num_tokens, heads], or [num_tokens, heads * key_dim]
  const Tensor& a_log;    // float32[heads]
  const Tensor& dt_bias;  // float32: as many as a row of dt
  int64_t neighbours;     // heads; groups * neighbours divides the number of heads
};
bool launch_gated_delta_rule(
    device::Stream& stream,
    const KernelTable& kernels,
    const DeltaRuleInputs& in,
    const StateOperands& states,  // state: [num_slots, heads, key_dim, value_dim]
    const Tensor& out,            // like v
    const ChunkKernel& chunks = {});

}  // namespace reprise::kernels
