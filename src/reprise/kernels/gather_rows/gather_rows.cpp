#include "reprise/kernels/gather_rows/gather_rows.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/gather_rows/gather_rows_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_gather_rows(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,
                        const Tensor& indices,
                        const Tensor& out) {
  require_dense_rows(x, "gather_rows");
  REPRISE_ASSERT(out.is_dense() && indices.is_dense(),
                 "gather_rows: indices and out must be dense");
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(x.dtype()));
  const GatherRowsArguments arguments = {
      .x = x.data(),
      .indices = indices.data_as<int32_t>(),
      .out = out.data(),
      .x_rows = x.size(0),
      .x_stride = x.stride(0) * element_bytes,
      .tiles = row_tiles(out.size(0), out.size(1) * element_bytes, RowCut::columns),
  };
  return launch(stream,
                kernels.gather_rows,
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(indices)});
}

bool launch_gather_rows(const OpRun& run) {
  const auto in = run.operands<OpCode::gather_rows>();
  return launch_gather_rows(run.stream, run.kernels, in["x"], in["indices"], run.out[0]);
}

}  // namespace reprise::kernels
