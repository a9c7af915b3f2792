#include "reprise/kernels/quantize/quantize.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/quantize/quantize_arguments.h"

namespace reprise::kernels {
namespace {

// The arguments of all kernels with a scale per row.
QuantizeRowsArguments row_arguments(const Tensor& x, const Tensor& q, const Tensor& scales) {
  require_dense_rows(x, "quantize");
  REPRISE_ASSERT(q.is_dense() && scales.is_dense(), "quantize: results must be dense");
  return {.x = x.data(),
          .residual = nullptr,
          .weight = nullptr,
          .sum = nullptr,
          .q = q.data(),
          .scales = scales.data_as<float>(),
          .x_layout = row_layout(x),
          .residual_layout = row_layout(x),
          .tiles = row_tiles(q.size(0), q.size(1), RowCut::whole_rows),
          .epsilon = 0};
}

}  // namespace

bool launch_quantize_per_token(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,
                               const Tensor& q,
                               const Tensor& scales) {
  const QuantizeRowsArguments arguments = row_arguments(x, q, scales);
  return launch(stream,
                kernel_for(kernels.quantize_per_token, q.dtype(), x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(q), writes(scales), reads(x)});
}

bool launch_quantize_static(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,
                            const Tensor& scale,
                            const Tensor& q) {
  require_dense_rows(x, "quantize_static");
  REPRISE_ASSERT(q.is_dense(), "quantize_static: the result must be dense");
  const QuantizeStaticArguments arguments = {
      .x = x.data(),
      .scale = scale.data_as<float>(),
      .q = q.data(),
      .x_layout = row_layout(x),
      .tiles = row_tiles(num_rows(x), x.size(-1), RowCut::columns),
  };
  return launch(stream,
                kernel_for(kernels.quantize_static, q.dtype(), x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(q), reads(x), reads(scale)});
}

bool launch_rms_norm_quant(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& x,
                           const Tensor& weight,
                           float epsilon,
                           const Tensor& q,
                           const Tensor& scales) {
  REPRISE_ASSERT(weight.is_dense(), "rms_norm_quant: the weight must be dense");
  QuantizeRowsArguments arguments = row_arguments(x, q, scales);
  arguments.weight = weight.data();
  arguments.epsilon = epsilon;
  return launch(stream,
                kernel_for(kernels.rms_norm_quant, q.dtype(), x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(q), writes(scales), reads(x), reads(weight)});
}

bool launch_fused_add_rms_norm_quant(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const FusedAddRmsNormQuantCall& call) {
  require_dense_rows(call.residual, "fused_add_rms_norm_quant");
  REPRISE_ASSERT(call.weight.is_dense() && call.sum.is_dense(),
                 "fused_add_rms_norm_quant: weight and sum must be dense");
  QuantizeRowsArguments arguments = row_arguments(call.x, call.q, call.scales);
  arguments.residual = call.residual.data();
  arguments.residual_layout = row_layout(call.residual);
  arguments.weight = call.weight.data();
  arguments.sum = call.sum.data();
  arguments.epsilon = call.epsilon;
  return launch(stream,
                kernel_for(kernels.fused_add_rms_norm_quant, call.q.dtype(), call.x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(call.q),
                           writes(call.scales),
                           writes(call.sum),
                           reads(call.x),
                           reads(call.residual),
                           reads(call.weight)});
}

bool launch_silu_and_mul_quant(device::Stream& stream,
                               const KernelTable& kernels,
                               const Tensor& x,
                               const Tensor& q,
                               const Tensor& scales) {
  const QuantizeRowsArguments arguments = row_arguments(x, q, scales);
  return launch(stream,
                kernel_for(kernels.silu_and_mul_quant, q.dtype(), x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(q), writes(scales), reads(x)});
}

bool launch_quantize_per_token(const OpRun& run) {
  const auto in = run.operands<OpCode::quantize_per_token>();
  return launch_quantize_per_token(run.stream, run.kernels, in["x"], run.out[0], run.out[1]);
}

bool launch_quantize_static(const OpRun& run) {
  const auto in = run.operands<OpCode::quantize_static>();
  return launch_quantize_static(run.stream, run.kernels, in["x"], in["scale"], run.out[0]);
}

bool launch_rms_norm_quant(const OpRun& run) {
  const auto in = run.operands<OpCode::rms_norm_quant>();
  return launch_rms_norm_quant(run.stream,
                               run.kernels,
                               in["x"],
                               in["weight"],
                               run.call.attributes.epsilon,
                               run.out[0],
                               run.out[1]);
}

bool launch_fused_add_rms_norm_quant(const OpRun& run) {
  const auto in = run.operands<OpCode::fused_add_rms_norm_quant>();
  return launch_fused_add_rms_norm_quant(run.stream,
                                         run.kernels,
                                         {.x = in["x"],
                                          .residual = in["residual"],
                                          .weight = in["weight"],
                                          .epsilon = run.call.attributes.epsilon,
                                          .q = run.out[0],
                                          .scales = run.out[1],
                                          .sum = run.out[2]});
}

bool launch_silu_and_mul_quant(const OpRun& run) {
  const auto in = run.operands<OpCode::silu_and_mul_quant>();
  return launch_silu_and_mul_quant(run.stream, run.kernels, in["x"], run.out[0], run.out[1]);
}

}  // namespace reprise::kernels
