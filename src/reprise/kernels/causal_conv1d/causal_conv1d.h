#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Where the tokens of a step belong, and where their requests keep their states. All on the
/// device, so that a graph serves every batch of its size.
///
/// The first slot of a request holds its state before the step. The state after token t of the step
/// is written to slot t of the request, or to its last slot if there are fewer: so a request whose
/// last tokens are drafts finds the state after each of them. A request that needs only the state
/// after its last token has the same slot everywhere.
struct StateOperands {
  const Tensor& state;  // float32[num_slots, ...]
  /// int32[num_reqs, slots_per_req], or int32[num_reqs] for one slot each: all slots of a request
  /// are the same one, or all are different; 0: the null slot.
  const Tensor& state_indices;
  const Tensor& query_start_loc;  // int32[num_reqs + 1]
  const Tensor& seq_lens;         // int32[num_reqs]
};
/// Those of a call. Only the state has another name in each op.
template <OpCode kOp>
[[nodiscard]] StateOperands state_operands(const Tensor& state, const Operands<kOp>& in) {
  return {.state = state,
          .state_indices = in["state_indices"],
          .query_start_loc = in["query_start_loc"],
          .seq_lens = in["seq_lens"]};
}
/// \pre the state is dense
[[nodiscard]] StateArguments state_arguments(const StateOperands& states, int64_t num_tokens);

/// Each channel is convolved over the tokens of its request, then goes through silu. A request
/// begins with zeros if all of its tokens are in this step, and with the last inputs in its slot
/// otherwise; its slots then get the last inputs. A request without tokens changes nothing. One in
/// the null slot gets zeros, and the slot is neither read nor written. Tokens behind those of the
/// last request get zeros too.
bool launch_causal_conv1d(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,       // [num_tokens, channels], rows may be strided
                          const Tensor& weight,  // [channels, 1, kernel]
                          const Tensor& bias,    // [channels], or undefined
                          const StateOperands& states,  // state: [num_slots, kernel - 1, channels]
                          const Tensor& out);           // like x

/// The same with other kernels of CausalConv1dArguments. `op` names the op in errors.
bool launch_convolution(device::Stream& stream,
                        const FloatKernels& kernels,
                        const char* op,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const StateOperands& states,
                        const Tensor& out);

}  // namespace reprise::kernels
