#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul_arguments.h"

namespace reprise::kernels {

bool launch_swigluoai_and_mul(device::Stream& stream,
                              const KernelTable& kernels,
                              const Tensor& x,
                              float limit,
                              const Tensor& out) {
  require_dense_rows(x, "swigluoai_and_mul");
  REPRISE_ASSERT(out.is_dense(), "swigluoai_and_mul: out must be dense");
  const SwigluoaiAndMulArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .limit = limit,
  };
  return launch(stream,
                kernel_for(kernels.swigluoai_and_mul, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_swigluoai_and_mul(const OpRun& run) {
  return launch_swigluoai_and_mul(
      run.stream, run.kernels, run.in[0], run.call.attributes.limit, run.out[0]);
}

}  // namespace reprise::kernels
