#include "reprise/kernels/short_conv/short_conv.h"

#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

bool launch_short_conv(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const StateOperands& states,
                       const Tensor& out) {
  const ConvolutionPlan plan = plan_convolution("short_conv", x, weight, bias, states, out);
  return launch(stream,
                kernel_for(kernels.short_conv, x.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out),
                           writes(states.state),
                           reads(x),
                           reads(weight),
                           reads(bias),
                           reads(states.state_indices),
                           reads(states.query_start_loc),
                           reads(states.seq_lens)});
}

void short_conv_ref(const Tensor& x,
                    const Tensor& weight,
                    const Tensor& bias,
                    const StateOperands& states,
                    const Tensor& out) {
  const int64_t channels = out.size(1);
  convolution_ref(
      {.input =
           [&](int64_t token, int64_t channel) {
             return element(x, token, channel) * element(x, token, 2 * channels + channel);
           },
       .result = [&](int64_t token,
                     int64_t channel,
                     double sum) { return element(x, token, channels + channel) * sum; }},
      weight,
      bias,
      states,
      out);
}

bool launch_short_conv(const OpRun& run) {
  const auto in = run.operands<OpCode::short_conv>();
  return launch_short_conv(run.stream,
                           run.kernels,
                           in["x"],
                           in["weight"],
                           in["bias"],
                           {.state = in["conv_state"],
                            .state_indices = in["state_indices"],
                            .query_start_loc = in["query_start_loc"],
                            .seq_lens = in["seq_lens"]},
                           in["out"]);
}

}  // namespace reprise::kernels
