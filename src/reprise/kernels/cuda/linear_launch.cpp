#include "reprise/kernels/cuda/linear_launch.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

bool fits_fragments(const LinearKernels& kernels, const LinearCall& call) {
  return kernels.narrow != nullptr && call.x.size(1) % 8 == 0 && call.x.stride(0) % 8 == 0 &&
         is_aligned(call.x.data()) && is_aligned(call.weight.data());
}

}  // namespace

bool launch_linear(device::Stream& stream, const LinearKernels& kernels, const LinearCall& call) {
  require_dense_rows(call.x, "linear");
  REPRISE_ASSERT(call.weight.is_dense() && call.out.is_dense(),
                 "linear: weight and out must be dense");
  const int64_t rows = call.x.size(0);
  const int64_t columns = call.out.size(1);
  const CudaLinearArguments arguments = {
      .product = {.x = call.x.data(),
                  .weight = call.weight.data(),
                  .bias = call.bias.data(),
                  .out = call.out.data(),
                  .num_rows = call.num_rows.defined() ? call.num_rows.data_as<int32_t>() : nullptr,
                  .x_stride = call.x.stride(0),
                  .rows = rows,
                  .columns = columns,
                  .depth = call.x.size(1),
                  .rows_per_block = 0,
                  .columns_per_block = 0},
      .residual = call.residual.data(),
      .residual_stride = call.residual.defined() ? call.residual.stride(0) : 0};
  const device::Kernel* kernel = kernels.dots;
  int64_t tile_rows = kDotRows;
  int64_t tile_columns = kDotColumns;
  if (fits_fragments(kernels, call)) {
    const bool is_narrow = rows <= kFragmentRows;
    kernel = is_narrow ? kernels.narrow : kernels.wide;
    tile_rows = is_narrow ? kFragmentRows : 4 * kFragmentRows;
    tile_columns = kFragmentColumns;
  }
  return launch(stream,
                *kernel,
                static_cast<uint32_t>(ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns)),
                arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.weight),
                           reads(call.bias),
                           reads(call.residual),
                           reads(call.num_rows)});
}

}  // namespace reprise::kernels::cuda
