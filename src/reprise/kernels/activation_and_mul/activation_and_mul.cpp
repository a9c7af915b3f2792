#include "reprise/kernels/activation_and_mul/activation_and_mul.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul_arguments.h"

namespace reprise::kernels {

bool launch_activation_and_mul(device::Stream& stream,
                               const KernelTable& kernels,
                               OpFunction function,
                               const Tensor& x,
                               const Tensor& out) {
  require_dense_rows(x, "activation_and_mul");
  REPRISE_ASSERT(out.is_dense(), "activation_and_mul: out must be dense");
  const SiluAndMulArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .function = function,
  };
  return launch(stream,
                kernel_for(kernels.activation_and_mul, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_activation_and_mul(const OpRun& run) {
  return launch_activation_and_mul(
      run.stream, run.kernels, run.call.attributes.function, run.in[0], run.out[0]);
}

}  // namespace reprise::kernels
