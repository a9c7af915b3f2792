#include "reprise/kernels/mul_gate/mul_gate.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/mul_gate/mul_gate_arguments.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_mul_gate(device::Stream& stream,
                     const KernelTable& kernels,
                     OpFunction function,
                     const Tensor& x,
                     const Tensor& gate,
                     const Tensor& out) {
  require_dense_rows(x, "mul_gate");
  require_dense_rows(gate, "mul_gate");
  REPRISE_ASSERT(out.is_dense(), "mul_gate: out must be dense");
  const MulGateArguments arguments = {
      .x = x.data(),
      .gate = gate.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .gate_layout = row_layout(gate),
      .tiles = row_tiles(num_rows(x), x.size(x.rank() - 1), RowCut::columns),
      .function = function,
  };
  return launch(stream,
                kernel_for(kernels.mul_gate, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(gate)});
}

bool launch_mul_gate(const OpRun& run) {
  const auto in = run.operands<OpCode::mul_gate>();
  return launch_mul_gate(
      run.stream, run.kernels, run.call.attributes.function, in["x"], in["gate"], run.out[0]);
}

}  // namespace reprise::kernels
