#include "reprise/kernels/scale_experts/scale_experts.h"

#include <array>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/scale_experts/scale_experts_arguments.h"

namespace reprise::kernels {

bool launch_scale_experts(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& weights,
                          const Tensor& experts,
                          const Tensor& scales,
                          const Tensor& out) {
  REPRISE_ASSERT(weights.is_dense() && experts.is_dense() && scales.is_dense() && out.is_dense(),
                 "scale_experts: all operands must be dense");
  const ScaleExpertsArguments arguments = {
      .weights = weights.data_as<float>(),
      .experts = experts.data_as<int32_t>(),
      .scales = scales.data(),
      .out = out.data_as<float>(),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
  };
  return launch(stream,
                kernel_for(kernels.scale_experts, scales.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(weights), reads(experts), reads(scales)});
}

bool launch_scale_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::scale_experts>();
  return launch_scale_experts(
      run.stream, run.kernels, in["weights"], in["experts"], in["scales"], run.out[0]);
}

}  // namespace reprise::kernels
