#include "reprise/kernels/block_linear/block_linear.h"

#include <algorithm>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/base/element.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {

int64_t num_activation_blocks(const Tensor& x) {
  return x.size(1) / static_cast<int64_t>(sizeof(ActivationBlock));
}

namespace {

PanelHeader header_of(const Tensor& x, const Tensor& weight) {
  const PanelHeader header = read_panel_header(weight);
  REPRISE_ASSERT(header.depth == num_activation_blocks(x) * kPanelBlock,
                 "block_linear: a weight of depth {} and rows of {} bytes",
                 header.depth,
                 x.size(1));
  return header;
}

}  // namespace

BlockLinearPlan plan_block_linear(const Tensor& x,
                                  const Tensor& weight,
                                  const Tensor& bias,
                                  const Tensor& out,
                                  int columns_per_output) {
  REPRISE_ASSERT(x.is_dense() && weight.is_dense() && out.is_dense(),
                 "block_linear: operands must be dense");
  const PanelHeader header = header_of(x, weight);
  const int64_t rows = x.size(0);
  const int64_t panels = header.panels / columns_per_output;
  // With few rows the work is streaming weights, and few panels balance it. With many rows more
  // panels read x less often. The choice does not change the bits.
  const int64_t panels_per_block =
      (rows > 16 ? kMaxPanelSlots : kMaxPanelSlots / 2) / columns_per_output;
  const int64_t row_tiles = std::max<int64_t>(ceil_div(rows, kMaxPanelTileRows), 1);
  constexpr int64_t kRowStep = 48;  // a multiple of the rows of every register tile and AMX tile
  const int64_t rows_per_block =
      std::max(ceil_div(ceil_div(rows, row_tiles), kRowStep), int64_t{1}) * kRowStep;
  return {.arguments = {.x = x.data_as<ActivationBlock>(),
                        .weight = weight.data_as<uint8_t>(),
                        .bias = bias.data(),
                        .out = out.data(),
                        .num_rows = nullptr,
                        .rows = rows,
                        .columns = out.size(1),
                        .panels = panels,
                        .blocks = num_activation_blocks(x),
                        .rows_per_block = static_cast<int32_t>(rows_per_block),
                        .panels_per_block = static_cast<int32_t>(panels_per_block)},
          .num_blocks = static_cast<uint32_t>(ceil_div(rows, rows_per_block) *
                                              ceil_div(panels, panels_per_block))};
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

void block_linear_ref(const Tensor& x,
                      const Tensor& weight,
                      const Tensor& bias,
                      const Tensor& out) {
  const PanelHeader header = header_of(x, weight);
  const int64_t num_blocks = num_activation_blocks(x);
  const auto* blocks = x.data_as<ActivationBlock>();
  std::vector<double> elements(static_cast<size_t>(header.depth));
  for (int64_t column = 0; column < weight.size(0); ++column) {
    for (int64_t i = 0; i < header.depth; ++i) {
      elements[static_cast<size_t>(i)] = panel_element(weight.data_as<uint8_t>(), column, i);
    }
    for (int64_t row = 0; row < x.size(0); ++row) {
      double sum = bias.defined() ? element(bias, column) : 0.0;
      for (int64_t i = 0; i < header.depth; ++i) {
        const ActivationBlock& block = blocks[row * num_blocks + i / kPanelBlock];
        sum += block.codes[i % kPanelBlock] * static_cast<double>(block.scale) *
               elements[static_cast<size_t>(i)];
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
