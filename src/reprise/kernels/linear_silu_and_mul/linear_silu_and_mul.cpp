#include "reprise/kernels/linear_silu_and_mul/linear_silu_and_mul.h"

#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_linear_silu_and_mul(device::Stream& stream,
                                const KernelTable& kernels,
                                const Tensor& x,
                                const Tensor& weight,
                                const Tensor& bias,
                                const Tensor& out) {
  // A block has two weight rows for each of its columns: one of each half of the weight.
  const LinearPlan plan = plan_linear(x, weight, bias, out, 2);
  return launch(stream,
                kernel_for(kernels.linear_silu_and_mul, x.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

bool launch_linear_silu_and_mul(const OpRun& run) {
  const auto in = run.operands<OpCode::linear_silu_and_mul>();
  return launch_linear_silu_and_mul(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], run.out[0]);
}

}  // namespace reprise::kernels
