#include "reprise/kernels/linear/linear.h"

#include <numeric>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"
#include "reprise/tensor/float_panels.h"

namespace reprise::kernels {

void set_weight_elements(const Tensor& weight, LinearArguments& arguments) {
  if (!is_float_panels(weight.dtype())) return;
  arguments.elements = weight.dtype() == DType::f8e4m3_panels   ? WeightElements::f8e4m3
                       : weight.dtype() == DType::f8e5m2_panels ? WeightElements::f8e5m2
                                                                : WeightElements::f4;
  arguments.column_bytes = weight.size(1);
  arguments.group = float_panel_group(weight.dtype(), arguments.column_bytes, arguments.depth);
  REPRISE_ASSERT(arguments.group > 0 && weight.size(0) % (2 * kPanelColumns) == 0,
                 "a weight of type {} for rows of {} elements",
                 weight.type().to_string(),
                 arguments.depth);
}

LinearPlan plan_linear(const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& out,
                       int weights_per_column) {
  require_dense_rows(x, "linear");
  REPRISE_ASSERT(weight.is_dense() && out.is_dense(), "linear: weight and out must be dense");
  const int64_t rows = x.size(0);
  const int64_t columns = out.size(1);
  const bool is_in_panels = is_panels(weight.dtype());
  // With few rows the work is streaming weights, and small tiles balance it. With many rows larger
  // tiles read x less often. The choice does not change the bits.
  const int columns_per_block = (is_in_panels ? kMaxLinearTileColumns
                                 : rows > 16  ? 32
                                              : 16) /
                                weights_per_column;
  LinearPlan plan = {.arguments = {.x = x.data(),
                                   .weight = weight.data(),
                                   .bias = bias.data(),
                                   .out = out.data(),
                                   .num_rows = nullptr,
                                   .x_stride = x.stride(0),
                                   .rows = rows,
                                   .columns = columns,
                                   .depth = x.size(1),
                                   .rows_per_block = kMaxLinearTileRows,
                                   .columns_per_block = columns_per_block,
                                   .is_in_panels = is_in_panels},
                     .num_blocks = static_cast<uint32_t>(ceil_div(rows, kMaxLinearTileRows) *
                                                         ceil_div(columns, columns_per_block))};
  set_weight_elements(weight, plan.arguments);
  return plan;
}

bool launch_linear(device::Stream& stream,
                   const KernelTable& kernels,
                   const Tensor& x,
                   const Tensor& weight,
                   const Tensor& bias,
                   const Tensor& out) {
  const LinearPlan plan = plan_linear(x, weight, bias, out);
  return launch(stream,
                kernel_for(kernels.linear, x.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

void linear_ref(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& out) {
  const auto row_of = [](const Tensor& tensor, int64_t row) {
    std::vector<double> elements(static_cast<size_t>(tensor.size(1)));
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = element(tensor, row, static_cast<int64_t>(i));
    return elements;
  };
  std::vector<std::vector<double>> rows;
  for (int64_t row = 0; row < x.size(0); ++row) rows.push_back(row_of(x, row));
  for (int64_t column = 0; column < weight.size(0); ++column) {
    const std::vector<double> weights = row_of(weight, column);
    const double first = bias.defined() ? element(bias, column) : 0.0;
    for (size_t row = 0; row < rows.size(); ++row) {
      const double sum =
          std::inner_product(weights.begin(), weights.end(), rows[row].begin(), first);
      set_element(out, sum, static_cast<int64_t>(row), column);
    }
  }
}

bool launch_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::linear>();
  return launch_linear(run.stream, run.kernels, in["x"], in["weight"], in["bias"], run.out[0]);
}

}  // namespace reprise::kernels
