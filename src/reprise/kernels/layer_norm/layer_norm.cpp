#include "reprise/kernels/layer_norm/layer_norm.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/layer_norm/layer_norm_arguments.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_layer_norm(device::Stream& stream,
                       const KernelTable& kernels,
                       const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       float epsilon,
                       const Tensor& out) {
  require_dense_rows(x, "layer_norm");
  REPRISE_ASSERT(out.is_dense() && weight.is_dense() && (!bias.defined() || bias.is_dense()),
                 "layer_norm: weight, bias and out must be dense");
  const LayerNormArguments arguments = {
      .x = x.data(),
      .weight = weight.data(),
      .bias = bias.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(num_rows(x), x.size(-1), RowCut::whole_rows),
      .epsilon = epsilon,
  };
  return launch(stream,
                kernel_for(kernels.layer_norm, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

bool launch_layer_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::layer_norm>();
  return launch_layer_norm(run.stream,
                           run.kernels,
                           in["x"],
                           in["weight"],
                           in["bias"],
                           run.call.attributes.epsilon,
                           run.out[0]);
}

}  // namespace reprise::kernels
