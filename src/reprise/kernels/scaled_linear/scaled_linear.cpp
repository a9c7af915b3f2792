#include "reprise/kernels/scaled_linear/scaled_linear.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"
#include "reprise/kernels/scaled_linear/scaled_linear_arguments.h"

namespace reprise::kernels {

bool launch_scaled_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const ScaledLinearCall& call) {
  REPRISE_ASSERT(call.scale.is_dense() && call.weight_scale.is_dense(),
                 "scaled_linear: scales must be dense");
  if (call.x.size(1) > kMaxScaledLinearDepth) {
    throw InvalidArgument(
        fmt::format("scaled_linear: {} features are more than the {} whose int32 "
                    "sums cannot overflow",
                    call.x.size(1),
                    kMaxScaledLinearDepth));
  }
  const LinearPlan plan = plan_linear(call.x, call.weight, call.bias, call.out);
  const ScaledLinearArguments arguments = {
      .product = plan.arguments,
      .scale = call.scale.data_as<float>(),
      .weight_scale = call.weight_scale.data_as<float>(),
      .scale_stride = call.scale.size(0) == 1 ? 0 : 1,
  };
  return launch(stream,
                kernel_for(kernels.scaled_linear, call.x.dtype(), call.out.dtype()),
                plan.num_blocks,
                arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.weight_scale),
                           reads(call.bias)});
}

void scaled_linear_ref(const ScaledLinearCall& call) {
  for (int64_t row = 0; row < call.x.size(0); ++row) {
    const double scale = element(call.scale, call.scale.size(0) == 1 ? 0 : row);
    for (int64_t column = 0; column < call.weight.size(0); ++column) {
      double sum = 0;
      for (int64_t i = 0; i < call.x.size(1); ++i) {
        sum += element(call.x, row, i) * element(call.weight, column, i);
      }
      const double bias = call.bias.defined() ? element(call.bias, column) : 0.0;
      set_element(call.out, sum * scale * element(call.weight_scale, column) + bias, row, column);
    }
  }
}

bool launch_scaled_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::scaled_linear>();
  return launch_scaled_linear(run.stream,
                              run.kernels,
                              {.x = in["x"],
                               .scale = in["scale"],
                               .weight = in["weight"],
                               .weight_scale = in["weight_scale"],
                               .bias = in["bias"],
                               .out = run.out[0]});
}

}  // namespace reprise::kernels
