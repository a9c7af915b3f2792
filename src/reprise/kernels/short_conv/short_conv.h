#pragma once

#include "reprise/kernels/causal_conv1d/causal_conv1d.h"

namespace reprise::kernels {

/// The gated short convolution of LFM2: C * conv(B * values), where a row of x is [B | C | values]
/// and the convolution sees the tokens of one request. Requests, slots and states are used as by
/// causal_conv1d; the state keeps the products B * values.
bool launch_short_conv(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,       // [num_tokens, 3 * channels], rows may be strided
                       const Tensor& weight,  // [channels, 1, kernel]
                       const Tensor& bias,    // [channels], or undefined
                       const StateOperands& states,  // state: [num_slots, kernel - 1, channels]
                       const Tensor& out);           // [num_tokens, channels]

}  // namespace reprise::kernels
