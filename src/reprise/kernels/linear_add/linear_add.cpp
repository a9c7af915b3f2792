#include "reprise/kernels/linear_add/linear_add.h"

#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/linear_add/linear_add_arguments.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_linear_add(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& residual,
                       const Tensor& out) {
  require_dense_rows(residual, "linear_add");
  const LinearPlan plan = plan_linear(x, weight, bias, out);
  const LinearAddArguments arguments = {.product = plan.arguments,
                                        .residual = residual.data(),
                                        .residual_stride = residual.stride(0)};
  return launch(stream,
                kernel_for(kernels.linear_add, x.dtype()),
                plan.num_blocks,
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(residual), reads(bias)});
}

bool launch_linear_add(const OpRun& run) {
  const auto in = run.operands<OpCode::linear_add>();
  return launch_linear_add(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], in["residual"], run.out[0]);
}

}  // namespace reprise::kernels
