#include "reprise/kernels/silu_and_mul/silu_and_mul.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"

namespace reprise::kernels {

bool launch_silu_and_mul(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,
                         const Tensor& out) {
  require_dense_rows(x, "silu_and_mul");
  REPRISE_ASSERT(out.is_dense(), "silu_and_mul: out must be dense");
  const SiluAndMulArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .function = OpFunction::none,
  };
  return launch(stream,
                kernel_for(kernels.silu_and_mul, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_silu_and_mul(const OpRun& run) {
  const auto in = run.operands<OpCode::silu_and_mul>();
  return launch_silu_and_mul(run.stream, run.kernels, in["x"], run.out[0]);
}

}  // namespace reprise::kernels
