#include "reprise/kernels/elementwise/elementwise.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/elementwise/elementwise_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_elementwise(device::Stream& stream,
                        const FloatKernels& kernels,
                        const Tensor& x,
                        float parameter,
                        const Tensor& out,
                        float least,
                        OpFunction function) {
  require_dense_rows(x, "elementwise");
  REPRISE_ASSERT(out.is_dense(), "elementwise: out must be dense");
  const ElementwiseArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::columns),
      .parameter = parameter,
      .least = least,
      .function = function,
  };
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_activation(const OpRun& run) {
  const OpFunction function = run.call.attributes.function;
  return launch_elementwise(
      run.stream, run.kernels.activation, run.in[0], 0, run.out[0], 0, function);
}
bool launch_scale(const OpRun& run) {
  return launch_elementwise(
      run.stream, run.kernels.scale, run.in[0], run.call.attributes.scale, run.out[0]);
}
bool launch_soft_cap(const OpRun& run) {
  return launch_elementwise(
      run.stream, run.kernels.soft_cap, run.in[0], run.call.attributes.soft_cap, run.out[0]);
}
bool launch_clamp(const OpRun& run) {
  const OpAttributes& attributes = run.call.attributes;
  return launch_elementwise(
      run.stream, run.kernels.clamp, run.in[0], attributes.limit, run.out[0], attributes.least);
}

}  // namespace reprise::kernels
