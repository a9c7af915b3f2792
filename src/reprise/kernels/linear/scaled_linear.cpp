#include "reprise/kernels/linear/linear.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/op_run.h"

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
  const LinearPlan plan =
      plan_linear({.x = call.x, .weight = call.weight, .out = call.out, .bias = call.bias});
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
