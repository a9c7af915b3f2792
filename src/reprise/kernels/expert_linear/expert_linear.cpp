#include "reprise/kernels/expert_linear/expert_linear.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/expert_linear/expert_linear_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

int64_t rows_per_x(const Tensor& x, const Tensor& experts) {
  return x.size(0) == experts.size(0) ? experts.size(1) : 1;
}

bool launch_expert_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,
                          const Tensor& weight,
                          const Tensor& bias,
                          const Tensor& experts,
                          const Tensor& out) {
  require_dense_rows(x, "expert_linear");
  REPRISE_ASSERT(weight.is_dense() && out.is_dense() && experts.is_dense() &&
                     (!bias.defined() || bias.is_dense()),
                 "expert_linear: weight, bias, experts and out must be dense");
  const ExpertLinearArguments arguments = {
      .x = x.data(),
      .weight = weight.data(),
      .bias = bias.data(),
      .experts = experts.data_as<int32_t>(),
      .out = out.data(),
      .x_stride = x.stride(0),
      .rows = out.size(0),
      .rows_per_x = rows_per_x(x, experts),
      .columns = out.size(1),
      .depth = x.size(1),
      .columns_per_block = kMaxLinearTileColumns,
  };
  const int64_t tiles = ceil_div(arguments.columns, arguments.columns_per_block);
  const int64_t blocks = arguments.rows == 0 ? 0 : weight.size(0) * tiles;
  return launch(stream,
                kernel_for(kernels.expert_linear, x.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias), reads(experts)});
}

void expert_linear_ref(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& experts,
                       const Tensor& out) {
  const int64_t top_k = experts.size(1);
  for (int64_t row = 0; row < out.size(0); ++row) {
    const int64_t expert = int_element(experts, row / top_k, row % top_k);
    const int64_t x_row = row / rows_per_x(x, experts);
    for (int64_t column = 0; column < out.size(1); ++column) {
      if (expert < 0) {
        set_element(out, 0, row, column);
        continue;
      }
      double sum = bias.defined() ? element(bias, expert, column) : 0.0;
      for (int64_t i = 0; i < x.size(1); ++i) {
        sum += element(x, x_row, i) * element(weight, expert, column, i);
      }
      set_element(out, sum, row, column);
    }
  }
}

bool launch_expert_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::expert_linear>();
  return launch_expert_linear(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], in["experts"], run.out[0]);
}

}  // namespace reprise::kernels
