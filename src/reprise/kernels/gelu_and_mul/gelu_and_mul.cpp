#include "reprise/kernels/gelu_and_mul/gelu_and_mul.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"

namespace reprise::kernels {

bool launch_gelu_and_mul(device::Stream& stream,
                         const FloatKernels& kernels,
                         const Tensor& x,
                         const Tensor& out) {
  require_dense_rows(x, "gelu_and_mul");
  REPRISE_ASSERT(out.is_dense(), "gelu_and_mul: out must be dense");
  const SiluAndMulArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
  };
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_gelu_and_mul(const OpRun& run) {
  return launch_gelu_and_mul(run.stream, run.kernels.gelu_and_mul, run.in[0], run.out[0]);
}
bool launch_gelu_tanh_and_mul(const OpRun& run) {
  return launch_gelu_and_mul(run.stream, run.kernels.gelu_tanh_and_mul, run.in[0], run.out[0]);
}

}  // namespace reprise::kernels
