#include "reprise/kernels/lm_head/lm_head.h"

#include <algorithm>

#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

bool launch_lm_head(device::Stream& stream,
                    const KernelTable& kernels,
                    const Tensor& x,
                    const Tensor& weight,
                    const Tensor& num_rows,
                    const Tensor& out) {
  LinearPlan plan = plan_linear(x, weight, {}, out);
  plan.arguments.num_rows = num_rows.data_as<int32_t>();
  return launch(stream,
                kernel_for(kernels.lm_head, x.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(num_rows)});
}

void lm_head_ref(const Tensor& x, const Tensor& weight, const Tensor& num_rows, const Tensor& out) {
  const int64_t rows = std::min(x.size(0), int_element(num_rows, 0));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < weight.size(0); ++column) {
      double sum = 0;
      for (int64_t i = 0; i < x.size(1); ++i)
        sum += element(x, row, i) * element(weight, column, i);
      set_element(out, sum, row, column);
    }
  }
}

bool launch_lm_head(const OpRun& run) {
  const auto in = run.operands<OpCode::lm_head>();
  return launch_lm_head(run.stream, run.kernels, in["x"], in["weight"], in["num_rows"], run.out[0]);
}

}  // namespace reprise::kernels
