#include "reprise/kernels/int8_linear/int8_linear.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/linear_add/linear_add_arguments.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/int8_panels.h"

namespace reprise::kernels {
namespace {

LinearPlan plan_int8_linear(const Int8LinearCall& call, int weights_per_column = 1) {
  REPRISE_ASSERT(call.x.dtype() == DType::i8 && call.weight.dtype() == DType::i8_panels &&
                     call.weight.size(1) == call.x.size(1) + kInt8TailBytes &&
                     fits_int8_panels(call.weight.size(0), call.x.size(1)),
                 "int8_linear: x is {}, the weight {}",
                 call.x.type().to_string(),
                 call.weight.type().to_string());
  REPRISE_ASSERT(call.scale.is_dense() && call.scale.size(0) == call.x.size(0),
                 "int8_linear: {} rows and {} scales",
                 call.x.size(0),
                 call.scale.size(0));
  LinearPlan plan = plan_linear(call.x, call.weight, call.bias, call.out, weights_per_column);
  plan.arguments.x_scale = call.scale.data_as<float>();
  return plan;
}

}  // namespace

bool launch_int8_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Int8LinearCall& call) {
  const LinearPlan plan = plan_int8_linear(call);
  return launch(stream,
                kernel_for(kernels.int8_linear, call.out.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.bias)});
}

bool launch_int8_lm_head(device::Stream& stream,
                         const KernelTable& kernels,
                         const Int8LinearCall& call,
                         const Tensor& num_rows) {
  LinearPlan plan = plan_int8_linear(call);
  plan.arguments.num_rows = num_rows.data_as<int32_t>();
  return launch(
      stream,
      kernel_for(kernels.int8_linear, call.out.dtype()),
      plan.num_blocks,
      plan.arguments,
      std::array{
          writes(call.out), reads(call.x), reads(call.scale), reads(call.weight), reads(num_rows)});
}

bool launch_int8_linear_add(device::Stream& stream,
                            const KernelTable& kernels,
                            const Int8LinearCall& call,
                            const Tensor& residual) {
  require_dense_rows(residual, "int8_linear_add");
  const LinearPlan plan = plan_int8_linear(call);
  const LinearAddArguments arguments = {.product = plan.arguments,
                                        .residual = residual.data(),
                                        .residual_stride = residual.stride(0)};
  return launch(stream,
                kernel_for(kernels.int8_linear_add, call.out.dtype()),
                plan.num_blocks,
                arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.bias),
                           reads(residual)});
}

bool launch_int8_linear_silu_and_mul(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const Int8LinearCall& call) {
  // A block has two weight rows for each of its columns: one of each half of the weight.
  const LinearPlan plan = plan_int8_linear(call, 2);
  return launch(stream,
                kernel_for(kernels.int8_linear_silu_and_mul, call.out.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.bias)});
}

bool launch_int8_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::int8_linear>();
  return launch_int8_linear(run.stream,
                            run.kernels,
                            {.x = in["x"],
                             .scale = in["scale"],
                             .weight = in["weight"],
                             .bias = in["bias"],
                             .out = run.out[0]});
}

bool launch_int8_lm_head(const OpRun& run) {
  const auto in = run.operands<OpCode::int8_lm_head>();
  return launch_int8_lm_head(
      run.stream,
      run.kernels,
      {.x = in["x"], .scale = in["scale"], .weight = in["weight"], .bias = {}, .out = run.out[0]},
      in["num_rows"]);
}

bool launch_int8_linear_add(const OpRun& run) {
  const auto in = run.operands<OpCode::int8_linear_add>();
  return launch_int8_linear_add(run.stream,
                                run.kernels,
                                {.x = in["x"],
                                 .scale = in["scale"],
                                 .weight = in["weight"],
                                 .bias = in["bias"],
                                 .out = run.out[0]},
                                in["residual"]);
}

bool launch_int8_linear_silu_and_mul(const OpRun& run) {
  const auto in = run.operands<OpCode::int8_linear_silu_and_mul>();
  return launch_int8_linear_silu_and_mul(run.stream,
                                         run.kernels,
                                         {.x = in["x"],
                                          .scale = in["scale"],
                                          .weight = in["weight"],
                                          .bias = in["bias"],
                                          .out = run.out[0]});
}

}  // namespace reprise::kernels
