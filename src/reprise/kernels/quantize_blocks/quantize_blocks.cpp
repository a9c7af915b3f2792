#include "reprise/kernels/quantize_blocks/quantize_blocks.h"

#include <algorithm>
#include <cmath>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks_arguments.h"

namespace reprise::kernels {

namespace {

QuantizeBlocksArguments arguments_of(const Tensor& x, const Tensor& out) {
  require_dense_rows(x, "quantize_blocks");
  REPRISE_ASSERT(out.is_dense(), "quantize_blocks: the result must be dense");
  return {.x = x.data(),
          .weight = nullptr,
          .out = out.data_as<ActivationBlock>(),
          .x_layout = row_layout(x),
          // The tiles are whole rows: a row of a real model takes less time than the handover of
          // its parts.
          .tiles = row_tiles(x.size(0), x.size(1), RowCut::whole_rows),
          .epsilon = 0};
}

}  // namespace

bool launch_quantize_blocks(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,
                            const Tensor& out) {
  const QuantizeBlocksArguments arguments = arguments_of(x, out);
  return launch(stream,
                kernel_for(kernels.quantize_blocks, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x)});
}

bool launch_rms_norm_quantize_blocks(device::Stream& stream,
                                     const KernelTable& kernels,
                                     const Tensor& x,
                                     const Tensor& weight,
                                     float epsilon,
                                     const Tensor& out) {
  REPRISE_ASSERT(weight.is_dense(), "rms_norm_quantize_blocks: the weight must be dense");
  QuantizeBlocksArguments arguments = arguments_of(x, out);
  arguments.weight = weight.data();
  arguments.epsilon = epsilon;
  return launch(stream,
                kernel_for(kernels.rms_norm_quantize_blocks, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

bool launch_quantize_blocks(const OpRun& run) {
  const auto in = run.operands<OpCode::quantize_blocks>();
  return launch_quantize_blocks(run.stream, run.kernels, in["x"], run.out[0]);
}

bool launch_rms_norm_quantize_blocks(const OpRun& run) {
  const auto in = run.operands<OpCode::rms_norm_quantize_blocks>();
  return launch_rms_norm_quantize_blocks(
      run.stream, run.kernels, in["x"], in["weight"], run.call.attributes.epsilon, run.out[0]);
}

}  // namespace reprise::kernels
