#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The requests of the tokens of a step, and the slots in which these requests keep their states.
/// Everything is on the device, so that a graph serves every batch of its size.
///
/// The first slot of a request holds its state before the step. The state after token t of the step
/// is written to slot t of the request, or to its last slot if it has fewer: so the state after
/// each token is available if the last tokens are drafts. If only the state after the last token is
/// needed, all slots of the request are the same slot.
struct StateOperands {
  const Tensor& state;  // float32[num_slots, ...]
  /// int32[num_reqs, slots_per_req], or int32[num_reqs] for one slot each. The slots of a request
  /// are either all the same or all different. 0 is the null slot.
  const Tensor& state_indices;
  const Tensor& query_start_loc;  // int32[num_reqs + 1]
  const Tensor& seq_lens;         // int32[num_reqs]
};
/// Returns the state operands of a call. Only the state itself has a different name in each op.
template <OpCode kOp>
[[nodiscard]] StateOperands state_operands(const Tensor& state, const Operands<kOp>& in) {
  return {.state = state,
          .state_indices = in["state_indices"],
          .query_start_loc = in["query_start_loc"],
          .seq_lens = in["seq_lens"]};
}
/// A kernel of a GPU that computes the tokens of prompts in chunks, in a launch before the kernel
/// for single tokens. It takes the arguments of that kernel.
struct ChunkKernel {
  const device::Kernel* kernel = nullptr;  // nullptr: there is none for the operands
  int64_t values_per_block = 0;            // of a head; each request and head has its blocks
};

/// \pre the state is dense
[[nodiscard]] StateArguments state_arguments(const StateOperands& states, int64_t num_tokens);

/// Each channel is convolved over the tokens of its request, then goes through silu. If all tokens
/// of a request are in this step, the convolution begins with zeros, otherwise with the last inputs
/// in the request's slot; afterwards the slots get the last inputs. For a request without tokens
/// nothing changes. A request in the null slot gets zeros, and the slot is neither read nor
/// written. The tokens after those of the last request get zeros, too.
bool launch_causal_conv1d(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,       // [num_tokens, channels], rows may be strided
                          const Tensor& weight,  // [channels, 1, kernel]
                          const Tensor& bias,    // [channels], or undefined
                          const StateOperands& states,  // state: [num_slots, kernel - 1, channels]
                          const Tensor& out);           // like x

/// The same with other kernels of CausalConv1dArguments. `op` names the op in errors.
/// `tokens_per_tile`: tokens of the batch for a block, besides the blocks of requests. 0: the
/// blocks of requests compute everything, as the CPU's do.
bool launch_convolution(device::Stream& stream,
                        const FloatKernels& kernels,
                        const char* op,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const StateOperands& states,
                        const Tensor& out,
                        int64_t tokens_per_tile = 0);

}  // namespace reprise::kernels
