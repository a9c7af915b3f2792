#include "reprise/kernels/block_lm_head/block_lm_head.h"

#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_block_lm_head(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,
                          const Tensor& weight,
                          const Tensor& num_rows,
                          const Tensor& out) {
  BlockLinearPlan plan = plan_block_linear(x, weight, {}, out);
  plan.arguments.num_rows = num_rows.data_as<int32_t>();
  return launch(stream,
                kernel_for(kernels.block_linear, DType::f32),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(num_rows)});
}

bool launch_block_lm_head(const OpRun& run) {
  const auto in = run.operands<OpCode::block_lm_head>();
  return launch_block_lm_head(
      run.stream, run.kernels, in["x"], in["weight"], in["num_rows"], run.out[0]);
}

}  // namespace reprise::kernels
