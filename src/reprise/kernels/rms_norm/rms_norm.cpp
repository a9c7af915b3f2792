#include "reprise/kernels/rms_norm/rms_norm.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rms_norm/rms_norm_arguments.h"

namespace reprise::kernels {

bool launch_rms_norm(device::Stream& stream,
                     const FloatKernels& kernels,
                     const char* op,
                     const Tensor& x,
                     const Tensor& weight,
                     float epsilon,
                     const Tensor& out) {
  require_dense_rows(x, op);
  REPRISE_ASSERT(out.is_dense() && weight.is_dense(), "{}: weight and out must be dense", op);
  const RmsNormArguments arguments = {
      .x = x.data(),
      .weight = weight.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(num_rows(x), x.size(-1), RowCut::whole_rows),
      .epsilon = epsilon,
  };
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

bool launch_rms_norm(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& x,
                     const Tensor& weight,
                     float epsilon,
                     const Tensor& out) {
  return launch_rms_norm(stream, kernels.rms_norm, "rms_norm", x, weight, epsilon, out);
}

bool launch_rms_norm(const OpRun& run) {
  const auto in = run.operands<OpCode::rms_norm>();
  return launch_rms_norm(
      run.stream, run.kernels, in["x"], in["weight"], run.call.attributes.epsilon, run.out[0]);
}

}  // namespace reprise::kernels
