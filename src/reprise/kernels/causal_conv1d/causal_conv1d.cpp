#include "reprise/kernels/causal_conv1d/causal_conv1d.h"

#include <algorithm>
#include <cmath>

#include "reprise/base/assert.h"
#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {
namespace {

// Enough that a block of one token is worth its launch.
constexpr int64_t kConvChannelsPerBlock = 256;

}  // namespace

StateArguments state_arguments(const StateOperands& states, int64_t num_tokens) {
  REPRISE_ASSERT(states.state.is_dense(),
                 "the states of requests are {}, and must be dense",
                 states.state.type().to_string());
  return {.state = states.state.data_as<float>(),
          .state_indices = states.state_indices.data_as<int32_t>(),
          .query_start_loc = states.query_start_loc.data_as<int32_t>(),
          .seq_lens = states.seq_lens.data_as<int32_t>(),
          .num_tokens = num_tokens,
          .num_reqs = states.seq_lens.size(0),
          .num_slots = states.state.size(0)};
}

bool launch_convolution(device::Stream& stream,
                        const FloatKernels& kernels,
                        const char* op,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& bias,
                        const StateOperands& states,
                        const Tensor& out) {
  require_dense_rows(x, op);
  REPRISE_ASSERT(weight.is_dense() && out.is_dense() && weight.size(2) >= 2 &&
                     weight.size(2) <= kMaxConvKernel,
                 "{}: a kernel of {} tokens, or a tensor that is not dense",
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
  };
  const int64_t blocks =
      states.seq_lens.size(0) * ceil_div(arguments.channels, arguments.channels_per_block);
  // Only the device knows which slots are written, so the launch declares a write of all states.
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                std::array{writes(out),
                           writes(states.state),
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

namespace {

void clear_row_ref(const Tensor& out, int64_t token) {
  for (int64_t i = 0; i < out.size(1); ++i) set_element(out, 0, token, i);
}

// Tokens behind those of the last request.
void clear_padding_ref(const StateOperands& states, const Tensor& out) {
  for (int64_t token = int_element(states.query_start_loc, states.seq_lens.size(0));
       token < out.size(0);
       ++token) {
    clear_row_ref(out, token);
  }
}

}  // namespace

void recurrence_ref(const UpdateStateRef& update, const StateOperands& states, const Tensor& out) {
  clear_padding_ref(states, out);
  for (int64_t request = 0; request < states.seq_lens.size(0); ++request) {
    const int64_t begin = int_element(states.query_start_loc, request);
    const int64_t end = int_element(states.query_start_loc, request + 1);
    const int64_t slot = int_element(states.state_indices, request);
    if (slot > 0 && begin < end && int_element(states.seq_lens, request) <= end - begin) {
      const int64_t size = states.state.stride(0);
      std::fill_n(states.state.data_as<float>() + slot * size, size, 0.0F);
    }
    for (int64_t token = begin; token < end; ++token) {
      if (slot > 0) {
        update(slot, token);
      } else {
        clear_row_ref(out, token);
      }
    }
  }
}

void convolution_ref(const ConvolutionRef& op,
                     const Tensor& weight,
                     const Tensor& bias,
                     const StateOperands& states,
                     const Tensor& out) {
  const int64_t num_earlier = weight.size(2) - 1;
  clear_padding_ref(states, out);
  for (int64_t request = 0; request < states.seq_lens.size(0); ++request) {
    const int64_t begin = int_element(states.query_start_loc, request);
    const int64_t end = int_element(states.query_start_loc, request + 1);
    const int64_t slot = int_element(states.state_indices, request);
    const bool is_new = int_element(states.seq_lens, request) <= end - begin;
    for (int64_t channel = 0; channel < out.size(1) && begin < end; ++channel) {
      std::vector<double> inputs;
      for (int64_t k = 0; k < num_earlier; ++k) {
        inputs.push_back(is_new || slot == 0 ? 0 : element(states.state, slot, k, channel));
      }
      for (int64_t token = begin; token < end; ++token) {
        inputs.push_back(op.input(token, channel));
        double sum = bias.defined() ? element(bias, channel) : 0;
        for (int64_t k = 0; k <= num_earlier; ++k) {
          sum += inputs[inputs.size() - static_cast<size_t>(num_earlier + 1 - k)] *
                 element(weight, channel, 0, k);
        }
        set_element(out, slot == 0 ? 0 : op.result(token, channel, sum), token, channel);
      }
      for (int64_t k = 0; k < num_earlier && slot > 0; ++k) {
        const double last = inputs[inputs.size() - static_cast<size_t>(num_earlier - k)];
        set_element(states.state, last, slot, k, channel);
      }
    }
  }
}

void causal_conv1d_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const StateOperands& states,
                       const Tensor& out) {
  convolution_ref(
      {.input = [&](int64_t token, int64_t channel) { return element(x, token, channel); },
       .result = [](int64_t, int64_t, double sum) { return sum / (1.0 + std::exp(-sum)); }},
      weight,
      bias,
      states,
      out);
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
