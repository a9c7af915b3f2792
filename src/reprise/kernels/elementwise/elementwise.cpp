#include "reprise/kernels/elementwise/elementwise.h"

#include <cmath>
#include <numbers>

#include "reprise/base/assert.h"
#include "reprise/kernels/elementwise/elementwise_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_elementwise(device::Stream& stream,
                        const FloatKernels& kernels,
                        const Tensor& x,
                        float parameter,
                        const Tensor& out) {
  require_dense_rows(x, "elementwise");
  REPRISE_ASSERT(out.is_dense(), "elementwise: out must be dense");
  const ElementwiseArguments arguments = {
      .x = x.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::columns),
      .parameter = parameter,
  };
  return launch(stream,
                kernel_for(kernels, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

double gelu_ref(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_tanh_ref(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

bool launch_gelu(const OpRun& run) {
  return launch_elementwise(run.stream, run.kernels.gelu, run.in[0], 0, run.out[0]);
}
bool launch_gelu_tanh(const OpRun& run) {
  return launch_elementwise(run.stream, run.kernels.gelu_tanh, run.in[0], 0, run.out[0]);
}
bool launch_relu(const OpRun& run) {
  return launch_elementwise(run.stream, run.kernels.relu, run.in[0], 0, run.out[0]);
}
bool launch_scale(const OpRun& run) {
  return launch_elementwise(
      run.stream, run.kernels.scale, run.in[0], run.call.attributes.scale, run.out[0]);
}
bool launch_soft_cap(const OpRun& run) {
  return launch_elementwise(
      run.stream, run.kernels.soft_cap, run.in[0], run.call.attributes.soft_cap, run.out[0]);
}

}  // namespace reprise::kernels
