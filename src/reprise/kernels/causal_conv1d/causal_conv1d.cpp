#include "reprise/kernels/causal_conv1d/causal_conv1d.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

// Large enough that the work of a block with one token is worth a block.
constexpr int64_t kConvChannelsPerBlock = 256;

}  // namespace

StateArguments state_arguments(const StateOperands& states, int64_t num_tokens) {
  REPRISE_ASSERT(states.state.is_dense(),
                 "the states of requests are {}, but they must be dense and of the supported type",
                 states.state.type().to_string());
  const Tensor& indices = states.state_indices;
  return {.state = states.state.data_as<float>(),
          .state_indices = indices.data_as<int32_t>(),
          .query_start_loc = states.query_start_loc.data_as<int32_t>(),
          .seq_lens = states.seq_lens.data_as<int32_t>(),
          .num_tokens = num_tokens,
          .num_reqs = states.seq_lens.size(0),
          .num_slots = states.state.size(0),
          .slots_per_req = indices.rank() == 1 ? 1 : indices.size(1),
          .has_chunks = 0};
}

bool launch_convolution(device::Stream& stream,
                        const FloatKernels& kernels,
                        const char* op,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const StateOperands& states,
                        const Tensor& out,
                        int64_t tokens_per_tile) {
  require_dense_rows(x, op);
  REPRISE_ASSERT(
      weight.is_dense() && out.is_dense() && weight.size(2) >= 2 &&
          weight.size(2) <= kMaxConvKernel,
      "{}: the weight covers {} tokens, which is not supported, or a tensor is not dense",
      op,
      weight.size(2));
  const CausalConv1dArguments arguments = {
      .x = x.data(),
      .weight = weight.data(),
      .bias = bias.defined() ? bias.data() : nullptr,
      .states = state_arguments(states, x.size(0)),
      .out = out.data(),
      .x_stride = x.stride(0),
      .channels = out.size(1),
      .kernel = weight.size(2),
      .channels_per_block = kConvChannelsPerBlock,
      .tokens_per_tile = tokens_per_tile,
  };
  const int64_t tiles = tokens_per_tile == 0 ? 0 : ceil_div(x.size(0), tokens_per_tile);
  const int64_t blocks = (states.seq_lens.size(0) + tiles) *
                         ceil_div(arguments.channels, arguments.channels_per_block);
  // Only the device knows which slots are written, so the launch declares a write of all states.
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                std::array{writes(out),
                           changes(states.state),
                           reads(x),
                           reads(weight),
                           reads(bias),
                           reads(states.state_indices),
                           reads(states.query_start_loc),
                           reads(states.seq_lens)});
}

bool launch_causal_conv1d(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,
                          const Tensor& weight,
                          const Tensor& bias,
                          const StateOperands& states,
                          const Tensor& out) {
  return launch_convolution(
      stream, kernels.causal_conv1d, "causal_conv1d", x, weight, bias, states, out);
}

bool launch_causal_conv1d(const OpRun& run) {
  const auto in = run.operands<OpCode::causal_conv1d>();
  return launch_causal_conv1d(run.stream,
                              run.kernels,
                              in["x"],
                              in["weight"],
                              in["bias"],
                              state_operands(in["conv_state"], in),
                              in["out"]);
}

}  // namespace reprise::kernels
