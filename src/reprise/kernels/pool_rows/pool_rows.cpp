#include "reprise/kernels/pool_rows/pool_rows.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/pool_rows/pool_rows_arguments.h"

namespace reprise::kernels {
namespace {

const FloatKernels& kernels_for(const KernelTable& kernels, PoolingRows pooling) {
  switch (pooling) {
    case PoolingRows::last:
      return kernels.pool_last;
    case PoolingRows::cls:
      return kernels.pool_cls;
    case PoolingRows::mean:
      break;
  }
  return kernels.pool_mean;
}

bool launch_pooling(const OpRun& run, PoolingRows pooling) {
  return launch_pool_rows(
      run.stream, run.kernels, pooling, run.in[0], run.in[1], run.in[2], run.out[0]);
}

}  // namespace

bool launch_pool_rows(device::Stream& stream,
                      const KernelTable& kernels,
                      PoolingRows pooling,
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
  };
  return launch(stream,
                kernel_for(kernels_for(kernels, pooling), x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(ends), reads(num_rows)});
}

bool launch_pool_last(const OpRun& run) { return launch_pooling(run, PoolingRows::last); }
bool launch_pool_cls(const OpRun& run) { return launch_pooling(run, PoolingRows::cls); }
bool launch_pool_mean(const OpRun& run) { return launch_pooling(run, PoolingRows::mean); }

}  // namespace reprise::kernels
