#include "reprise/kernels/sigmoid_gate/sigmoid_gate.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/sigmoid_gate/sigmoid_gate_arguments.h"

namespace reprise::kernels {

bool launch_sigmoid_gate(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,
                         const Tensor& gate,
                         const Tensor& out) {
  require_dense_rows(x, "sigmoid_gate");
  REPRISE_ASSERT(out.is_dense(), "sigmoid_gate: out must be dense");
  const SigmoidGateArguments arguments = {
      .x = x.data(),
      .gate = gate.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .gate_layout = row_layout(gate),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::columns),
  };
  return launch(stream,
                kernel_for(kernels.sigmoid_gate, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(gate)});
}

bool launch_sigmoid_gate(const OpRun& run) {
  const auto in = run.operands<OpCode::sigmoid_gate>();
  return launch_sigmoid_gate(run.stream, run.kernels, in["x"], in["gate"], run.out[0]);
}

}  // namespace reprise::kernels
