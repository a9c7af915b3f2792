#include "reprise/kernels/quantize_blocks/quantize_blocks.h"

#include <algorithm>
#include <cmath>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/quantize_blocks/quantize_blocks_arguments.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

namespace {

QuantizeBlocksArguments arguments_of(const Tensor& x, const Tensor& out) {
  require_dense_rows(x, "quantize_blocks");
  REPRISE_ASSERT(out.is_dense(), "quantize_blocks: the result must be dense");
  return {.x = x.data(),
          .weight = nullptr,
          .out = out.data_as<ActivationBlock>(),
          .x_layout = row_layout(x),
          // Whole rows: a row of a real model takes less time than handing out its parts.
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

void quantize_blocks_ref(const Tensor& x, const Tensor& out) {
  auto* block = out.data_as<ActivationBlock>();
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t begin = 0; begin < x.size(1); begin += kPanelBlock, ++block) {
      float magnitude = 0;
      for (int64_t i = 0; i < kPanelBlock; ++i) {
        magnitude = std::max(magnitude, std::abs(static_cast<float>(element(x, row, begin + i))));
      }
      block->scale = magnitude / 127.0F;
      block->sums[0] = block->sums[1] = 0;
      for (int64_t i = 0; i < kPanelBlock; ++i) {
        const double code =
            magnitude > 0 ? element(x, row, begin + i) * 127.0 / static_cast<double>(magnitude) : 0;
        block->codes[i] = static_cast<int8_t>(std::nearbyint(code));
        block->sums[i / (kPanelBlock / 2)] =
            static_cast<int16_t>(block->sums[i / (kPanelBlock / 2)] + block->codes[i]);
      }
    }
  }
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
