#include "reprise/kernels/block_linear_add/block_linear_add.h"

#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/block_linear_add/block_linear_add_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_block_linear_add(device::Stream& stream,
                             const KernelTable& kernels,
                             const Tensor& x,
                             const Tensor& weight,
                             const Tensor& bias,
                             const Tensor& residual,
                             const Tensor& out) {
  require_dense_rows(residual, "block_linear_add");
  const BlockLinearPlan plan = plan_block_linear(x, weight, bias, out);
  const BlockLinearAddArguments arguments = {.product = plan.arguments,
                                             .residual = residual.data(),
                                             .residual_stride = residual.stride(0)};
  return launch(stream,
                kernel_for(kernels.block_linear_add, out.dtype()),
                plan.num_blocks,
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(residual), reads(bias)});
}

bool launch_block_linear_add(const OpRun& run) {
  const auto in = run.operands<OpCode::block_linear_add>();
  return launch_block_linear_add(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], in["residual"], run.out[0]);
}

}  // namespace reprise::kernels
