#include "reprise/kernels/short_conv/short_conv.h"

#include "reprise/kernels/op_run.h"

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
