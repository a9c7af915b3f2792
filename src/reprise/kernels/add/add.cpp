#include "reprise/kernels/add/add.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/add/add_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_add(device::Stream& stream,
                const KernelTable& kernels,
                const Tensor& a,
                const Tensor& b,
                const Tensor& out) {
  require_dense_rows(a, "add");
  require_dense_rows(b, "add");
  REPRISE_ASSERT(out.is_dense(), "add: out must be dense");
  const AddArguments arguments = {
      .a = a.data(),
      .b = b.data(),
      .out = out.data(),
      .a_layout = row_layout(a),
      .b_layout = row_layout(b),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::columns),
  };
  return launch(stream,
                kernel_for(kernels.add, a.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(a), reads(b)});
}

bool launch_add(const OpRun& run) {
  const auto in = run.operands<OpCode::add>();
  return launch_add(run.stream, run.kernels, in["a"], in["b"], run.out[0]);
}

}  // namespace reprise::kernels
