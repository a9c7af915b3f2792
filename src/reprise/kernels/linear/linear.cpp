#include "reprise/kernels/linear/linear.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "reprise/base/assert.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/tensor/int8_panels.h"
#include "reprise/tensor/packed_weight.h"

namespace reprise::kernels {
namespace {

// The kernels of one epilogue, for each form of the activations.
struct ProductKernels {
  const FloatKernels KernelTable::* of_elements;
  const FloatKernels KernelTable::* of_int8_rows;
  const FloatKernels KernelTable::* of_int8_blocks;
};
// By ProductEpilogue.
constexpr std::array kProductKernels = {
    ProductKernels{&KernelTable::linear, &KernelTable::int8_linear, &KernelTable::block_linear},
    ProductKernels{
        &KernelTable::linear_add, &KernelTable::int8_linear_add, &KernelTable::block_linear_add},
    ProductKernels{&KernelTable::linear_silu_and_mul,
                   &KernelTable::int8_linear_silu_and_mul,
                   &KernelTable::block_linear_silu_and_mul},
    ProductKernels{nullptr, nullptr, &KernelTable::block_linear_silu_and_mul_quantize_blocks}};

const device::Kernel& kernel_of(const KernelTable& kernels, const LinearCall& call) {
  const ProductKernels& of = kProductKernels[static_cast<size_t>(call.epilogue)];
  // Logits are float32, whatever the model's type is. Codes have been computed from numbers of the
  // model's type.
  const bool has_logits = call.num_rows.defined();
  const bool quantises = call.epilogue == ProductEpilogue::silu_and_mul_quantize_blocks;
  const DType stored = quantises ? call.weight.dtype() : call.out.dtype();
  switch (activation_form(call.weight.layout().family)) {
    case ActivationForm::int8_blocks:
      return kernel_for(kernels.*of.of_int8_blocks, stored);
    case ActivationForm::int8_rows:
      return kernel_for(kernels.*of.of_int8_rows, stored);
    case ActivationForm::elements:
      break;
  }
  return kernel_for(has_logits ? kernels.lm_head : kernels.*of.of_elements, call.x.dtype());
}

// The number of rows of the weight that a column of the result needs.
int weights_per_column(ProductEpilogue epilogue) {
  return epilogue == ProductEpilogue::silu_and_mul ||
                 epilogue == ProductEpilogue::silu_and_mul_quantize_blocks
             ? 2
             : 1;
}

/// Whether the first operand of a product is elements although the layout of the weight asks for
/// quantised rows.
bool quantises_rows(const OpRun& run) {
  return run.in[0].dtype() != DType::i8 &&
         activation_form(run.in[1].layout().family) != ActivationForm::elements;
}

/// Runs such a product, without a norm, as two launches: the quantisation, then the same op of
/// quantised rows.
bool launch_quantisation_apart(const OpRun& run) {
  const Tensor& x = run.in[0];
  std::array<Tensor, kRuleOf<OpCode::linear_rope_kv_write>.operands.size> inputs;
  std::ranges::copy(run.in, inputs.begin());
  std::array<Tensor, 2> outputs;
  OpCall quantise{OpCode::quantize_blocks, {}};
  quantise.attributes.type.dtype = DType::i8;
  size_t num_outputs = 1;
  if (activation_form(run.in[1].layout().family) == ActivationForm::int8_rows) {
    quantise.code = OpCode::quantize_per_token;
    outputs[0] = run.executor.allocate({DType::i8, x.shape()});
    outputs[1] = run.executor.allocate({DType::f32, {x.size(0)}});
    inputs[operand_index(definition_of(run.call.code).rule, "scale")] = outputs[1];
    num_outputs = 2;
  } else {
    const int64_t blocks = x.size(1) / kPanelBlock;
    outputs[0] = run.executor.allocate(
        {DType::i8, {x.size(0), blocks * static_cast<int64_t>(sizeof(ActivationBlock))}});
  }
  run.executor.launch_checked(quantise, run.in.first(1), std::span(outputs).first(num_outputs));
  inputs[0] = outputs[0];
  return run.executor.launch_checked(run.call, std::span(inputs).first(run.in.size()), run.out);
}

}  // namespace

void set_weight_layout(const Tensor& weight, LinearArguments& arguments) {
  const WeightLayout& layout = weight.layout();
  const int64_t depth = weight.size(-1);
  arguments.family = layout.family;
  if (layout.family != WeightFamily::float_panels) return;
  arguments.codec = layout.codec;
  arguments.column_bytes = layout.row_bytes;
  arguments.group = layout.group(depth);
  REPRISE_ASSERT(fits_float_panels(layout.codec, weight.num_elements() / depth, depth),
                 "a weight of {}",
                 weight.type().to_string());
}

LinearPlan plan_linear(const LinearCall& call, int weights_per_column) {
  const Tensor& x = call.x;
  require_dense_rows(x, "linear");
  REPRISE_ASSERT(call.weight.is_dense() && call.out.is_dense(),
                 "linear: weight and out must be dense");
  const bool is_int8 = call.weight.layout().family == WeightFamily::int8_panels;
  if (is_int8) {
    REPRISE_ASSERT(x.dtype() == DType::i8 && call.scale.is_dense() &&
                       (call.scale.size(0) == x.size(0) || call.scale.size(0) == 1) &&
                       fits_int8_panels(call.weight.size(0), x.size(1)),
                   "linear: x is {}, which does not fit the weight {} and its scales",
                   x.type().to_string(),
                   call.weight.type().to_string());
  }
  const int64_t rows = x.size(0);
  const int64_t columns = call.out.size(1);
  // With few rows the work is reading weights, and small tiles divide it evenly. With many rows,
  // larger tiles read x less often. The choice does not change the bits.
  const int columns_per_block = (!call.weight.layout().is_rows() ? kMaxLinearTileColumns
                                 : rows > 16                     ? 32
                                                                 : 16) /
                                weights_per_column;
  LinearPlan plan = {
      .arguments = {.x = x.data(),
                    .weight = call.weight.data(),
                    .bias = call.bias.data(),
                    .out = call.out.data(),
                    .num_rows = call.num_rows.data_as<int32_t>(),
                    .x_stride = x.stride(0),
                    .rows = rows,
                    .columns = columns,
                    .depth = x.size(1),
                    .rows_per_block = kMaxLinearTileRows,
                    .columns_per_block = columns_per_block,
                    .x_scale = is_int8 ? call.scale.data_as<float>() : nullptr,
                    .x_scale_stride = is_int8 && call.scale.size(0) == 1 ? 0 : 1,
                    .residual = call.residual.data(),
                    .residual_stride = call.residual.defined() ? call.residual.stride(0) : 0},
      .num_blocks = static_cast<uint32_t>(ceil_div(rows, kMaxLinearTileRows) *
                                          ceil_div(columns, columns_per_block))};
  set_weight_layout(call.weight, plan.arguments);
  return plan;
}

int64_t num_activation_blocks(const Tensor& x) {
  return x.size(1) / static_cast<int64_t>(sizeof(ActivationBlock));
}

BlockLinearPlan plan_block_linear(const LinearCall& call, int columns_per_output) {
  const Tensor& x = call.x;
  REPRISE_ASSERT(x.is_dense() && call.weight.is_dense() && call.out.is_dense(),
                 "linear: operands in blocks must be dense");
  const PanelHeader header = read_panel_header(call.weight);
  REPRISE_ASSERT(header.depth == num_activation_blocks(x) * kPanelBlock,
                 "linear: a weight of depth {} does not fit rows of {} bytes",
                 header.depth,
                 x.size(1));
  // A block of activations is 32 outputs. So if the outputs are quantised, a block of the grid
  // always has two panels of gates, and the columns of `out` are blocks.
  const bool quantises = call.epilogue == ProductEpilogue::silu_and_mul_quantize_blocks;
  static_assert(kPanelBlock == 2 * kPanelColumns && kMaxPanelSlots == 4);
  const int64_t rows = x.size(0);
  const int64_t panels = header.panels / columns_per_output;
  // With few rows the work is reading weights, and blocks with few panels divide it evenly. With
  // many rows, more panels read x less often. The choice does not change the bits.
  const int64_t panels_per_block =
      (rows > 16 || quantises ? kMaxPanelSlots : kMaxPanelSlots / 2) / columns_per_output;
  const int64_t row_tiles = std::max<int64_t>(ceil_div(rows, kMaxPanelTileRows), 1);
  constexpr int64_t kRowStep = 48;  // a multiple of the rows of every register tile and AMX tile
  const int64_t rows_per_block =
      std::max(ceil_div(ceil_div(rows, row_tiles), kRowStep), int64_t{1}) * kRowStep;
  return {.arguments = {.x = x.data_as<ActivationBlock>(),
                        .weight = call.weight.data_as<uint8_t>(),
                        .bias = call.bias.data(),
                        .out = call.out.data(),
                        .num_rows = call.num_rows.data_as<int32_t>(),
                        .rows = rows,
                        .columns = quantises ? num_activation_blocks(call.out) : call.out.size(1),
                        .panels = panels,
                        .blocks = num_activation_blocks(x),
                        .rows_per_block = static_cast<int32_t>(rows_per_block),
                        .panels_per_block = static_cast<int32_t>(panels_per_block),
                        .residual = call.residual.data(),
                        .residual_stride = call.residual.defined() ? call.residual.stride(0) : 0},
          .num_blocks = static_cast<uint32_t>(ceil_div(rows, rows_per_block) *
                                              ceil_div(panels, panels_per_block))};
}

bool launch_linear(device::Stream& stream, const KernelTable& kernels, const LinearCall& call) {
  if (call.residual.defined()) require_dense_rows(call.residual, "linear");
  const device::Kernel& kernel = kernel_of(kernels, call);
  const std::array uses = {writes(call.out),
                           reads(call.x),
                           reads(call.scale),
                           reads(call.weight),
                           reads(call.bias),
                           reads(call.residual),
                           reads(call.num_rows)};
  const int weights = weights_per_column(call.epilogue);
  if (call.weight.layout().family == WeightFamily::block_panels) {
    const BlockLinearPlan plan = plan_block_linear(call, weights);
    return launch(stream, kernel, plan.num_blocks, plan.arguments, uses);
  }
  const LinearPlan plan = plan_linear(call, weights);
  return launch(stream, kernel, plan.num_blocks, plan.arguments, uses);
}

bool launch_linear(const OpRun& run) {
  if (quantises_rows(run)) return launch_quantisation_apart(run);
  const auto in = run.operands<OpCode::linear>();
  return launch_linear(run.stream,
                       run.kernels,
                       {.x = in["x"],
                        .weight = in["weight"],
                        .out = run.out[0],
                        .bias = in["bias"],
                        .scale = in["scale"]});
}

bool launch_linear_add(const OpRun& run) {
  if (quantises_rows(run)) return launch_quantisation_apart(run);
  const auto in = run.operands<OpCode::linear_add>();
  return launch_linear(run.stream,
                       run.kernels,
                       {.x = in["x"],
                        .weight = in["weight"],
                        .out = run.out[0],
                        .bias = in["bias"],
                        .scale = in["scale"],
                        .residual = in["residual"],
                        .epilogue = ProductEpilogue::add});
}

bool launch_linear_silu_and_mul(const OpRun& run) {
  const auto in = run.operands<OpCode::linear_silu_and_mul>();
  if (in["norm"].defined()) return launch_norm_apart(run);
  if (quantises_rows(run)) return launch_quantisation_apart(run);
  return launch_linear(run.stream,
                       run.kernels,
                       {.x = in["x"],
                        .weight = in["weight"],
                        .out = run.out[0],
                        .bias = in["bias"],
                        .scale = in["scale"],
                        .epilogue = ProductEpilogue::silu_and_mul});
}

bool launch_linear_silu_and_mul_quantize_blocks(const OpRun& run) {
  const auto in = run.operands<OpCode::linear_silu_and_mul_quantize_blocks>();
  return launch_linear(run.stream,
                       run.kernels,
                       {.x = in["x"],
                        .weight = in["weight"],
                        .out = run.out[0],
                        .bias = in["bias"],
                        .epilogue = ProductEpilogue::silu_and_mul_quantize_blocks});
}

bool launch_lm_head(const OpRun& run) {
  const auto in = run.operands<OpCode::lm_head>();
  if (in["norm"].defined()) return launch_norm_apart(run);
  if (quantises_rows(run)) return launch_quantisation_apart(run);
  return launch_linear(run.stream,
                       run.kernels,
                       {.x = in["x"],
                        .weight = in["weight"],
                        .out = run.out[0],
                        .scale = in["scale"],
                        .num_rows = in["num_rows"]});
}

}  // namespace reprise::kernels
