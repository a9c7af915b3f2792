#include "reprise/kernels/block_linear_silu_and_mul/block_linear_silu_and_mul.h"

#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_block_linear_silu_and_mul(device::Stream& stream,
                                      const KernelTable& kernels,
                                      const Tensor& x,
                                      const Tensor& weight,
                                      const Tensor& bias,
                                      const Tensor& out) {
  const BlockLinearPlan plan = plan_block_linear(x, weight, bias, out, 2);
  return launch(stream,
                kernel_for(kernels.block_linear_silu_and_mul, out.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

bool launch_block_linear_silu_and_mul_quantize_blocks(device::Stream& stream,
                                                      const KernelTable& kernels,
                                                      const Tensor& x,
                                                      const Tensor& weight,
                                                      const Tensor& bias,
                                                      DType dtype,
                                                      const Tensor& out) {
  BlockLinearPlan plan = plan_block_linear(x, weight, bias, out, 2);
  BlockLinearArguments& arguments = plan.arguments;
  arguments.columns = out.size(1) / static_cast<int64_t>(sizeof(ActivationBlock));
  // A block of activations is 32 outputs, so a block of the grid always has two panels of gates.
  static_assert(kPanelBlock == 2 * kPanelColumns && kMaxPanelSlots == 4);
  arguments.panels_per_block = 2;
  const auto num_blocks =
      static_cast<uint32_t>(ceil_div(arguments.rows, arguments.rows_per_block) *
                            ceil_div(arguments.panels, arguments.panels_per_block));
  return launch(stream,
                kernel_for(kernels.block_linear_silu_and_mul_quantize_blocks, dtype),
                num_blocks,
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

bool launch_block_linear_silu_and_mul(const OpRun& run) {
  const auto in = run.operands<OpCode::block_linear_silu_and_mul>();
  return launch_block_linear_silu_and_mul(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], run.out[0]);
}

bool launch_block_linear_silu_and_mul_quantize_blocks(const OpRun& run) {
  const auto in = run.operands<OpCode::block_linear_silu_and_mul_quantize_blocks>();
  return launch_block_linear_silu_and_mul_quantize_blocks(run.stream,
                                                          run.kernels,
                                                          in["x"],
                                                          in["weight"],
                                                          in["bias"],
                                                          run.call.attributes.type.dtype,
                                                          run.out[0]);
}

}  // namespace reprise::kernels
