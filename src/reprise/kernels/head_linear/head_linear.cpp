#include "reprise/kernels/head_linear/head_linear.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/head_linear/head_linear_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

bool launch_head_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& out) {
  require_dense_rows(x, "head_linear");
  REPRISE_ASSERT(weight.is_dense() && out.is_dense(), "head_linear: weight and out must be dense");
  const int64_t rows = x.size(0);
  const int64_t columns = weight.size(1);
  const HeadLinearArguments arguments = {
      .first_head = {.x = x.data(),
                     .weight = weight.data(),
                     .bias = nullptr,
                     .out = out.data(),
                     .num_rows = nullptr,
                     .x_stride = x.stride(0),
                     .rows = rows,
                     .columns = columns,
                     .depth = x.size(2),
                     .rows_per_block = kMaxLinearTileRows,
                     .columns_per_block = kMaxLinearTileColumns},
      .heads = x.size(1),
      .x_head_stride = x.stride(1),
      .blocks_per_head =
          ceil_div(rows, kMaxLinearTileRows) * ceil_div(columns, kMaxLinearTileColumns),
  };
  return launch(stream,
                kernel_for(kernels.head_linear, x.dtype()),
                static_cast<uint32_t>(arguments.heads * arguments.blocks_per_head),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

void head_linear_ref(const Tensor& x, const Tensor& weight, const Tensor& out) {
  for (int64_t token = 0; token < out.size(0); ++token) {
    for (int64_t head = 0; head < out.size(1); ++head) {
      for (int64_t column = 0; column < out.size(2); ++column) {
        double sum = 0;
        for (int64_t i = 0; i < x.size(2); ++i) {
          sum += element(x, token, head, i) * element(weight, head, column, i);
        }
        set_element(out, sum, token, head, column);
      }
    }
  }
}

bool launch_head_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::head_linear>();
  return launch_head_linear(run.stream, run.kernels, in["x"], in["weight"], run.out[0]);
}

}  // namespace reprise::kernels
