#include "reprise/kernels/short_conv/short_conv.h"

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
  return launch_convolution(stream, kernels.short_conv, "short_conv", x, weight, bias, states, out);
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
                           state_operands(in["conv_state"], in),
                           in["out"]);
}

}  // namespace reprise::kernels
