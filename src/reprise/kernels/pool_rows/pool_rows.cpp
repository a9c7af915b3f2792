#include "reprise/kernels/pool_rows/pool_rows.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/pool_rows/pool_rows_arguments.h"

namespace reprise::kernels {
bool launch_pool_rows(device::Stream& stream,
                      const KernelTable& kernels,
                      OpFunction function,
                      const Tensor& x,
                      const Tensor& ends,
                      const Tensor& num_rows,
                      const Tensor& out) {
  require_dense_rows(x, "pool_rows");
  REPRISE_ASSERT(ends.is_dense() && out.is_dense(), "pool_rows: ends and out must be dense");
  const PoolRowsArguments arguments = {
      .x = x.data(),
      .ends = ends.data_as<int32_t>(),
      .num_rows = num_rows.data_as<int32_t>(),
      .out = out.data_as<float>(),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .x_stride = x.stride(0),
      .x_rows = x.size(0),
      .function = function,
  };
  return launch(stream,
                kernel_for(kernels.pool_rows, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(ends), reads(num_rows)});
}

bool launch_pool_rows(const OpRun& run) {
  const auto in = run.operands<OpCode::pool_rows>();
  return launch_pool_rows(run.stream,
                          run.kernels,
                          run.call.attributes.function,
                          in["x"],
                          in["ends"],
                          in["num_rows"],
                          run.out[0]);
}

}  // namespace reprise::kernels
