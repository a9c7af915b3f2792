#include "reprise/kernels/group_norm/group_norm.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/group_norm/group_norm_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_group_norm(device::Stream& stream,
                       const KernelTable& kernels,
                       OpFunction function,
                       const Tensor& x,
                       const Tensor& weight,
                       const Tensor& out,
                       float epsilon,
                       int64_t groups) {
  require_dense_rows(x, "group_norm");
  REPRISE_ASSERT(
      out.is_dense() && weight.is_dense() && groups > 0 && x.size(1) % groups == 0,
      "group_norm: {} columns cannot be divided into {} groups, or a tensor is not dense",
      x.size(1),
      groups);
  const GroupNormArguments arguments = {
      .x = x.data(),
      .weight = weight.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(x.size(0), x.size(1), RowCut::whole_rows),
      .group_size = x.size(1) / groups,
      .epsilon = epsilon,
      .function = function,
  };
  return launch(stream,
                kernel_for(kernels.group_norm, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

bool launch_group_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::group_norm>();
  const OpAttributes& attributes = run.call.attributes;
  return launch_group_norm(run.stream,
                           run.kernels,
                           attributes.function,
                           in["x"],
                           in["weight"],
                           run.out[0],
                           attributes.epsilon,
                           attributes.groups);
}

}  // namespace reprise::kernels
