#include "reprise/kernels/combine_experts/combine_experts.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/combine_experts/combine_experts_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_combine_experts(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,
                            const Tensor& weights,
                            const Tensor& out) {
  require_dense_rows(x, "combine_experts");
  REPRISE_ASSERT(weights.is_dense() && out.is_dense(),
                 "combine_experts: weights and out must be dense");
  const CombineExpertsArguments arguments = {
      .x = x.data(),
      .weights = weights.data_as<float>(),
      .out = out.data(),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .x_stride = x.stride(0),
      .top_k = weights.size(1),
  };
  return launch(stream,
                kernel_for(kernels.combine_experts, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weights)});
}

bool launch_combine_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::combine_experts>();
  return launch_combine_experts(run.stream, run.kernels, in["x"], in["weights"], run.out[0]);
}

}  // namespace reprise::kernels
