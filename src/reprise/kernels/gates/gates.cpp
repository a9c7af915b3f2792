#include "reprise/kernels/gates/gates.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/gates/gates_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_gates(device::Stream& stream,
                  const KernelTable& kernels,
                  GateFunction function,
                  const Tensor& x,
                  const Tensor& gate,
                  const Tensor& out) {
  require_dense_rows(x, "a gate");
  require_dense_rows(gate, "a gate");
  REPRISE_ASSERT(out.is_dense(), "a gate: out must be dense");
  const GatesArguments arguments = {
      .x = x.data(),
      .gate = gate.data(),
      .out = out.data(),
      .x_layout = row_layout(x),
      .gate_layout = row_layout(gate),
      .tiles = row_tiles(num_rows(x), x.size(x.rank() - 1), RowCut::columns),
  };
  const FloatKernels& kernel =
      function == GateFunction::silu ? kernels.mul_silu : kernels.mul_sigmoid;
  return launch(stream,
                kernel_for(kernel, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(gate)});
}

bool launch_mul_silu(const OpRun& run) {
  const auto in = run.operands<OpCode::mul_silu>();
  return launch_gates(run.stream, run.kernels, GateFunction::silu, in["x"], in["gate"], run.out[0]);
}

bool launch_mul_sigmoid(const OpRun& run) {
  const auto in = run.operands<OpCode::mul_sigmoid>();
  return launch_gates(
      run.stream, run.kernels, GateFunction::sigmoid, in["x"], in["gate"], run.out[0]);
}

}  // namespace reprise::kernels
