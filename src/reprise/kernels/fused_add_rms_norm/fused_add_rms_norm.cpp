#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/add/add.h"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rms_norm/rms_norm.h"

namespace reprise::kernels {

bool launch_fused_add_rms_norm(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,
                               const Tensor& residual,
                               const Tensor& weight,
                               float epsilon,
                               const Tensor& normed,
                               const Tensor& sum) {
  require_dense_rows(x, "fused_add_rms_norm");
  require_dense_rows(residual, "fused_add_rms_norm");
  REPRISE_ASSERT(normed.is_dense() && sum.is_dense() && weight.is_dense(),
                 "fused_add_rms_norm: weight and results must be dense");
  const FusedAddRmsNormArguments arguments = {
      .x = x.data(),
      .residual = residual.data(),
      .weight = weight.data(),
      .normed = normed.data(),
      .sum = sum.data(),
      .x_layout = row_layout(x),
      .residual_layout = row_layout(residual),
      .tiles = row_tiles(num_rows(x), x.size(-1), RowCut::whole_rows),
      .epsilon = epsilon,
  };
  return launch(stream,
                kernel_for(kernels.fused_add_rms_norm, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(normed), writes(sum), reads(x), reads(residual), reads(weight)});
}

bool launch_fused_add_rms_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::fused_add_rms_norm>();
  return launch_fused_add_rms_norm(run.stream,
                                   run.kernels,
                                   in["x"],
                                   in["residual"],
                                   in["weight"],
                                   run.call.attributes.epsilon,
                                   run.out[0],
                                   run.out[1]);
}

}  // namespace reprise::kernels
