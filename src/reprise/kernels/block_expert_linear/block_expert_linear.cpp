#include "reprise/kernels/block_expert_linear/block_expert_linear.h"

#include <vector>

#include "reprise/base/assert.h"
#include "reprise/kernels/block_expert_linear/block_expert_linear_arguments.h"
#include "reprise/kernels/block_linear/block_linear.h"
#include "reprise/kernels/expert_linear/expert_linear.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {
namespace {

BlockExpertLinearArguments arguments_of(const Tensor& x,
                                        const Tensor& weight,
                                        const Tensor& bias,
                                        const Tensor& experts,
                                        const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && weight.is_dense() && experts.is_dense() && out.is_dense() &&
                     (!bias.defined() || bias.is_dense()),
                 "block_expert_linear: operands must be dense");
  const PanelHeader header = read_panel_header(weight);
  REPRISE_ASSERT(header.depth == num_activation_blocks(x) * kPanelBlock,
                 "block_expert_linear: a weight of depth {} and rows of {} bytes",
                 header.depth,
                 x.size(1));
  const int64_t columns = out.size(1);
  REPRISE_ASSERT(columns % kPanelColumns == 0 && weight.size(0) % columns == 0 &&
                     header.panels * kPanelColumns == weight.size(0),
                 "block_expert_linear: experts of {} outputs in {} panels of {} outputs",
                 columns,
                 header.panels,
                 weight.size(0));
  // Two or more rows of an expert share its bytes only in the grid by experts. While most experts
  // have one row or none, the grid by rows hands out equal work.
  const int64_t num_experts = weight.size(0) / columns;
  const bool is_by_expert = out.size(0) > num_experts;
  return {.x = x.data_as<ActivationBlock>(),
          .weight = weight.data_as<uint8_t>(),
          .bias = bias.data(),
          .experts = experts.data_as<int32_t>(),
          .out = out.data(),
          .rows = out.size(0),
          .rows_per_x = rows_per_x(x, experts),
          .columns = columns,
          .panels = columns / kPanelColumns,
          .blocks = num_activation_blocks(x),
          .panels_per_block = is_by_expert ? kMaxPanelSlots : kMaxPanelSlots / 2,
          .is_by_expert = is_by_expert};
}

}  // namespace

bool launch_block_expert_linear(device::Stream& stream,
                                const KernelTable& kernels,
                                const Tensor& x,
                                const Tensor& weight,
                                const Tensor& bias,
                                const Tensor& experts,
                                const Tensor& out) {
  const BlockExpertLinearArguments arguments = arguments_of(x, weight, bias, experts, out);
  const int64_t units = arguments.is_by_expert ? weight.size(0) / out.size(1) : arguments.rows;
  const int64_t groups = ceil_div(arguments.panels, arguments.panels_per_block);
  return launch(stream,
                kernel_for(kernels.block_expert_linear, out.dtype()),
                static_cast<uint32_t>(units * groups),
                arguments,
                std::array{writes(out), reads(x), reads(weight), reads(bias), reads(experts)});
}

void block_expert_linear_ref(const Tensor& x,
                             const Tensor& weight,
                             const Tensor& bias,
                             const Tensor& experts,
                             const Tensor& out) {
  const PanelHeader header = read_panel_header(weight);
  const int64_t num_blocks = num_activation_blocks(x);
  std::vector<double> elements(static_cast<size_t>(header.depth));
  // The expert -1 has the sum 0.
  for (int64_t expert = -1; expert < weight.size(0) / out.size(1); ++expert) {
    for (int64_t column = 0; column < out.size(1); ++column) {
      for (int64_t i = 0; i < header.depth && expert >= 0; ++i) {
        elements[static_cast<size_t>(i)] =
            panel_element(weight.data_as<uint8_t>(), expert * out.size(1) + column, i);
      }
      for (int64_t row = 0; row < out.size(0); ++row) {
        if (int_element(experts, row / experts.size(1), row % experts.size(1)) != expert) continue;
        const auto* blocks =
            x.data_as<ActivationBlock>() + row / rows_per_x(x, experts) * num_blocks;
        double sum = expert >= 0 && bias.defined() ? element(bias, expert, column) : 0.0;
        for (int64_t i = 0; i < header.depth && expert >= 0; ++i) {
          const ActivationBlock& block = blocks[i / kPanelBlock];
          sum += block.codes[i % kPanelBlock] * static_cast<double>(block.scale) *
                 elements[static_cast<size_t>(i)];
        }
        set_element(out, sum, row, column);
      }
    }
  }
}

bool launch_block_expert_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::block_expert_linear>();
  return launch_block_expert_linear(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], in["experts"], run.out[0]);
}

}  // namespace reprise::kernels
