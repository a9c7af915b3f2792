#include "reprise/kernels/block_linear/block_linear.h"

#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {
namespace {

PanelFormat format_of(const Tensor& x, const Tensor& weight) {
  const auto format = panel_format_of(weight.size(1), x.size(1));
  REPRISE_ASSERT(format.has_value() && weight.size(0) % kPanelColumns == 0,
                 "block_linear: weight [{}, {}] does not fit rows of {} bytes",
                 weight.size(0),
                 weight.size(1),
                 x.size(1));
  return *format;
}

}  // namespace

BlockLinearPlan plan_block_linear(const Tensor& x,
                                  const Tensor& weight,
                                  const Tensor& bias,
                                  const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && weight.is_dense() && out.is_dense(),
                 "block_linear: operands must be dense");
  const int64_t rows = x.size(0);
  const int64_t columns = weight.size(0);
  // With few rows the work is streaming weights, and small tiles balance it. With many rows larger
  // tiles read x less often. The choice does not change the bits.
  const int64_t columns_per_block = rows > 16 ? 4 * kPanelColumns : 2 * kPanelColumns;
  return {.arguments = {.x = x.data_as<ActivationBlock>(),
                        .weight = weight.data_as<uint8_t>(),
                        .bias = bias.data(),
                        .out = out.data(),
                        .num_rows = nullptr,
                        .rows = rows,
                        .columns = columns,
                        .blocks = x.size(1) / static_cast<int64_t>(sizeof(ActivationBlock)),
                        .rows_per_block = kMaxPanelTileRows,
                        .columns_per_block = static_cast<int32_t>(columns_per_block),
                        .format = format_of(x, weight)},
          .num_blocks = static_cast<uint32_t>(ceil_div(rows, kMaxPanelTileRows) *
                                              ceil_div(columns, columns_per_block))};
}

bool launch_block_linear(device::Stream& stream,
                         const KernelTable& kernels,
                         const Tensor& x,
                         const Tensor& weight,
                         const Tensor& bias,
                         const Tensor& out) {
  const BlockLinearPlan plan = plan_block_linear(x, weight, bias, out);
  return launch(stream,
                kernel_for(kernels.block_linear, out.dtype()),
                plan.num_blocks,
                plan.arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias)});
}

double panel_element(const Tensor& weight, PanelFormat format, int64_t row, int64_t element) {
  const int64_t block_bytes = kPanelColumns * panel_block_bytes(format);
  const int64_t panel_bytes = kPanelColumns * weight.size(1);
  const auto* block = weight.data_as<uint8_t>() + row / kPanelColumns * panel_bytes +
                      element / kPanelBlock * block_bytes;
  const int64_t column = row % kPanelColumns;
  const int64_t i = element % kPanelBlock;
  Float16 scale;
  std::memcpy(&scale, block + block_bytes - 2 * (kPanelColumns - column), sizeof scale);
  if (format == PanelFormat::q8_0) {
    return to_float(scale) * static_cast<double>(block[i / 4 * 64 + column * 4 + i % 4] - 128);
  }
  const uint8_t pair = block[i % 16 / 4 * 64 + column * 4 + i % 4];
  return to_float(scale) * static_cast<double>((i < 16 ? pair & 15 : pair >> 4) - 8);
}

void block_linear_ref(const Tensor& x,
                      const Tensor& weight,
                      const Tensor& bias,
                      const Tensor& out) {
  const PanelFormat format = format_of(x, weight);
  const int64_t num_blocks = x.size(1) / static_cast<int64_t>(sizeof(ActivationBlock));
  const auto* blocks = x.data_as<ActivationBlock>();
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t column = 0; column < weight.size(0); ++column) {
      double sum = bias.defined() ? element(bias, column) : 0.0;
      for (int64_t i = 0; i < num_blocks * kPanelBlock; ++i) {
        const ActivationBlock& block = blocks[row * num_blocks + i / kPanelBlock];
        sum += block.codes[i % kPanelBlock] * static_cast<double>(block.scale) *
               panel_element(weight, format, column, i);
      }
      set_element(out, sum, row, column);
    }
  }
}

bool launch_block_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::block_linear>();
  return launch_block_linear(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], run.out[0]);
}

}  // namespace reprise::kernels
