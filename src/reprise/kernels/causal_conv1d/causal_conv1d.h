#pragma once

#include <cstdint>
#include <functional>

#include "reprise/device/device.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Where the tokens of a step belong, and where their requests keep their states. All on the
/// device, so that a graph serves every batch of its size.
struct StateOperands {
  const Tensor& state;            // float32[num_slots, ...]
  const Tensor& state_indices;    // int32[num_reqs], the slot of each request; 0: the null slot
  const Tensor& query_start_loc;  // int32[num_reqs + 1]
  const Tensor& seq_lens;         // int32[num_reqs]
};

/// Each channel is convolved over the tokens of its request, then goes through silu. A request
/// begins with zeros if all of its tokens are in this step, and with the last inputs in its slot
/// otherwise; its slot then gets the last inputs. A request without tokens changes nothing. One in
/// the null slot gets zeros, and the slot is neither read nor written. Tokens behind those of the
/// last request get zeros too.
bool launch_causal_conv1d(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,       // [num_tokens, channels], rows may be strided
                          const Tensor& weight,  // [channels, 1, kernel]
                          const Tensor& bias,    // [channels], or undefined
                          const StateOperands& states,  // state: [num_slots, kernel - 1, channels]
                          const Tensor& out);           // like x

/// What a convolution over the tokens of requests is launched with, and its number of blocks.
struct ConvolutionPlan {
  CausalConv1dArguments arguments;
  uint32_t num_blocks;
};
/// `op` names the op in errors. \pre weight, states and out are dense
[[nodiscard]] ConvolutionPlan plan_convolution(const char* op,
                                               const Tensor& x,
                                               const Tensor& weight,
                                               const Tensor& bias,
                                               const StateOperands& states,
                                               const Tensor& out);

/// The part of the oracles that is the same for all ops with states: zeros for padding tokens.
void clear_padding_ref(const StateOperands& states, const Tensor& out);

/// The oracles of convolutions, in double: what is convolved, and what becomes of a sum.
struct ConvolutionRef {
  std::function<double(int64_t token, int64_t channel)> input;
  std::function<double(int64_t token, int64_t channel, double sum)> result;
};
void convolution_ref(const ConvolutionRef& op,
                     const Tensor& weight,
                     const Tensor& bias,
                     const StateOperands& states,
                     const Tensor& out);

/// Oracle, in double.
void causal_conv1d_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const StateOperands& states,
                       const Tensor& out);

}  // namespace reprise::kernels
