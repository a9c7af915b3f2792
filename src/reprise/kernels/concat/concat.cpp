#include "reprise/kernels/concat/concat.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/concat/concat_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_concat(device::Stream& stream,
                   const KernelTable& kernels,
                   const Tensor& a,
                   const Tensor& b,
                   const Tensor& out) {
  require_dense_rows(a, "concat");
  require_dense_rows(b, "concat");
  REPRISE_ASSERT(out.is_dense(), "concat: out must be dense");
  const ConcatArguments arguments = {
      .a = a.data(),
      .b = b.data(),
      .out = out.data(),
      .a_layout = row_layout(a),
      .b_layout = row_layout(b),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::whole_rows),
      .a_width = a.size(-1),
  };
  return launch(stream,
                kernel_for(kernels.concat, a.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(a), reads(b)});
}

bool launch_concat(const OpRun& run) {
  const auto in = run.operands<OpCode::concat>();
  return launch_concat(run.stream, run.kernels, in["a"], in["b"], run.out[0]);
}

}  // namespace reprise::kernels
