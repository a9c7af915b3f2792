#include "reprise/kernels/linear/linear.h"

#include <array>

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {
namespace {

/// The number of rows of the result for each row of x: K or 1.
int64_t rows_per_x(const Tensor& x, const Tensor& experts) {
  return x.size(0) == experts.size(0) ? experts.size(1) : 1;
}

ExpertLinearArguments arguments_of_rows(const Tensor& x,
                                        const Tensor& weight,
                                        const Tensor& bias,
                                        const Tensor& experts,
                                        const Tensor& out) {
  require_dense_rows(x, "expert_linear");
  REPRISE_ASSERT(weight.is_dense() && out.is_dense() && experts.is_dense() &&
                     (!bias.defined() || bias.is_dense()),
                 "expert_linear: weight, bias, experts and out must be dense");
  return {
      .x = x.data(),
      .weight = weight.data(),
      .bias = bias.data(),
      .experts = experts.data_as<int32_t>(),
      .out = out.data(),
      .x_stride = x.stride(0),
      .rows = out.size(0),
      .rows_per_x = rows_per_x(x, experts),
      .columns = out.size(1),
      .depth = x.size(1),
      .columns_per_block = kMaxLinearTileColumns,
  };
}

BlockExpertLinearArguments arguments_of_blocks(const Tensor& x,
                                               const Tensor& weight,
                                               const Tensor& bias,
                                               const Tensor& experts,
                                               const Tensor& out) {
  REPRISE_ASSERT(x.is_dense() && weight.is_dense() && experts.is_dense() && out.is_dense() &&
                     (!bias.defined() || bias.is_dense()),
                 "expert_linear: operands must be dense");
  const PanelHeader header = read_panel_header(weight);
  REPRISE_ASSERT(header.depth == num_activation_blocks(x) * kPanelBlock,
                 "expert_linear: a weight of depth {} does not fit rows of {} bytes",
                 header.depth,
                 x.size(1));
  const int64_t num_experts = weight.size(0);
  const int64_t columns = out.size(1);
  REPRISE_ASSERT(
      columns % kPanelColumns == 0 && header.panels * kPanelColumns == num_experts * columns,
      "expert_linear: {} experts of {} outputs do not fit {} panels",
      num_experts,
      columns,
      header.panels);
  // Only the grid by experts lets two or more rows of an expert share the expert's bytes. While
  // most experts have at most one row, the grid by rows divides the work more evenly.
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

bool launch_expert_linear(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,
                          const Tensor& weight,
                          const Tensor& bias,
                          const Tensor& experts,
                          const Tensor& out) {
  const std::array uses = {writes(out), reads(x), reads(weight), reads(bias), reads(experts)};
  if (weight.layout().family == WeightFamily::block_panels) {
    const BlockExpertLinearArguments arguments = arguments_of_blocks(x, weight, bias, experts, out);
    const int64_t units = arguments.is_by_expert ? weight.size(0) : arguments.rows;
    const int64_t groups = ceil_div(arguments.panels, arguments.panels_per_block);
    return launch(stream,
                  kernel_for(kernels.block_expert_linear, out.dtype()),
                  static_cast<uint32_t>(units * groups),
                  arguments,
                  uses);
  }
  const ExpertLinearArguments arguments = arguments_of_rows(x, weight, bias, experts, out);
  const int64_t tiles = ceil_div(arguments.columns, arguments.columns_per_block);
  const int64_t blocks = arguments.rows == 0 ? 0 : weight.size(0) * tiles;
  return launch(stream,
                kernel_for(kernels.expert_linear, x.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                uses);
}

bool launch_expert_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::expert_linear>();
  return launch_expert_linear(
      run.stream, run.kernels, in["x"], in["weight"], in["bias"], in["experts"], run.out[0]);
}

HeadLinearArguments head_linear_arguments(const Tensor& x,
                                          const Tensor& weight,
                                          const Tensor& out,
                                          int rows_per_block,
                                          int columns_per_block) {
  require_dense_rows(x, "head_linear");
  REPRISE_ASSERT(weight.is_dense() && out.is_dense(), "head_linear: weight and out must be dense");
  const int64_t rows = x.size(0);
  const int64_t columns = weight.size(1);
  return {.first_head = {.x = x.data(),
                         .weight = weight.data(),
                         .bias = nullptr,
                         .out = out.data(),
                         .num_rows = nullptr,
                         .x_stride = x.stride(0),
                         .rows = rows,
                         .columns = columns,
                         .depth = x.size(2),
                         .rows_per_block = rows_per_block,
                         .columns_per_block = columns_per_block},
          .heads = x.size(1),
          .x_head_stride = x.stride(1),
          .blocks_per_head = ceil_div(rows, int64_t{rows_per_block}) *
                             ceil_div(columns, int64_t{columns_per_block})};
}

bool launch_head_linear(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,
                        const Tensor& weight,
                        const Tensor& out) {
  const HeadLinearArguments arguments =
      head_linear_arguments(x, weight, out, kMaxLinearTileRows, kMaxLinearTileColumns);
  return launch(stream,
                kernel_for(kernels.head_linear, x.dtype()),
                static_cast<uint32_t>(arguments.heads * arguments.blocks_per_head),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

bool launch_head_linear(const OpRun& run) {
  const auto in = run.operands<OpCode::head_linear>();
  return launch_head_linear(run.stream, run.kernels, in["x"], in["weight"], run.out[0]);
}

}  // namespace reprise::kernels
