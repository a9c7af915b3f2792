#include "reprise/kernels/cuda/packed_expand.h"

#include <algorithm>

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/packed_arguments.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

Tensor dequantized(DeviceExecutor& executor, const Tensor& x, DType dtype) {
  constexpr uint32_t kMostBlocks = 1024;
  const int64_t blocks = x.size(1) / static_cast<int64_t>(sizeof(ActivationBlock));
  Tensor rows = executor.allocate({dtype, {x.size(0), blocks * kPanelBlock}});
  const DequantizeRowsArguments arguments = {
      .x = x.data(), .out = rows.data(), .rows = x.size(0), .blocks = blocks};
  const int64_t eights = x.size(0) * blocks * 4;
  launch(executor.stream(),
         *expand_kernels(dtype).rows,
         std::min(static_cast<uint32_t>(ceil_div(eights, 256)), kMostBlocks),
         arguments,
         std::array{writes(rows), reads(x)});
  return rows;
}

/// Codes of int8 rows as numbers of the type of the model, without their scales.
Tensor numbers_of(DeviceExecutor& executor, const Tensor& x, DType dtype) {
  constexpr uint32_t kMostBlocks = 1024;
  Tensor rows = executor.allocate({dtype, x.shape()});
  REPRISE_ASSERT(x.is_dense(), "linear: int8 rows must be dense");
  const Int8ElementsArguments arguments = {
      .x = x.data_as<int8_t>(), .out = rows.data(), .count = x.num_elements()};
  const auto blocks = static_cast<uint32_t>(ceil_div(x.num_elements(), int64_t{256} * 8));
  launch(executor.stream(),
         *expand_kernels(dtype).int8_rows,
         std::min(blocks, kMostBlocks),
         arguments,
         std::array{writes(rows), reads(x)});
  return rows;
}

/// The rows of x as elements.
Tensor elements_of(DeviceExecutor& executor, const PackedCall& call) {
  const DType dtype = call.weight.dtype();
  switch (call.weight.layout().family) {
    case WeightFamily::block_panels:
      return dequantized(executor, call.x, dtype);
    case WeightFamily::int8_panels:
      return numbers_of(executor, call.x, dtype);
    default:
      return call.x;
  }
}

/// Writes `count` rows of the weight from row `first` on as numbers.
void expand(DeviceExecutor& executor,
            const Tensor& weight,
            const Tensor& numbers,
            int64_t first,
            int64_t count) {
  const WeightLayout& layout = weight.layout();
  const ExpandKernels kernels = expand_kernels(weight.dtype());
  const std::array uses = {writes(numbers), reads(weight)};
  if (layout.family == WeightFamily::block_panels) {
    const int64_t panels = num_panels(weight.size(0)) + PanelHeader::kMaxParts - 1;
    const ExpandPanelsArguments arguments = {
        .weight = weight.data(), .out = numbers.data(), .first = first, .count = count};
    launch(executor.stream(), *kernels.panels, static_cast<uint32_t>(panels), arguments, uses);
    return;
  }
  const int64_t depth = weight.size(1);
  const ExpandFloatsArguments arguments = {.weight = weight.data(),
                                           .out = numbers.data(),
                                           .first_panel = first / kPanelColumns,
                                           .depth = depth,
                                           .group = layout.group(depth),
                                           .panel_bytes = kPanelColumns * layout.row_bytes,
                                           .codec = layout.codec};
  const bool is_int8 = layout.family == WeightFamily::int8_panels;
  launch(executor.stream(),
         is_int8 ? *kernels.int8 : *kernels.floats,
         static_cast<uint32_t>(num_panels(count)),
         arguments,
         uses);
}

/// Writes the outputs from `first` on, whose sums are given.
void scale_sums(DeviceExecutor& executor,
                const PackedCall& call,
                const Tensor& sums,
                int64_t first) {
  const ScaleInt8SumsArguments arguments = {.sums = sums.data_as<float>(),
                                            .x_scale = call.scale.data_as<float>(),
                                            .weight = call.weight.data(),
                                            .bias = call.bias.data(),
                                            .out = call.out.data(),
                                            .x_scale_stride = call.scale.size(0) == 1 ? 0 : 1,
                                            .rows = sums.size(0),
                                            .columns = sums.size(1),
                                            .first = first,
                                            .out_stride = call.out.stride(0),
                                            .depth = call.weight.size(1),
                                            .type = packed_type(call.weight.dtype()),
                                            .out_type = packed_type(call.out.dtype())};
  launch(
      executor.stream(),
      scale_int8_sums_kernel(),
      static_cast<uint32_t>(sums.size(0)),
      arguments,
      std::array{
          writes(call.out), reads(sums), reads(call.scale), reads(call.weight), reads(call.bias)});
}

/// Pieces of a weight, and what the library multiplies them with.
struct Expanded {
  DeviceExecutor& executor;
  GemmLibrary& library;
  const PackedCall& call;
  Tensor rows;     // of x as numbers
  Tensor numbers;  // of a piece of the weight

  /// Computes `count` outputs from `first` on.
  [[nodiscard]] bool multiply(int64_t first, int64_t count) {
    const int64_t depth = numbers.size(1);
    const Tensor piece = numbers.with_layout({count, depth}, {depth, 1}, 0);
    expand(executor, call.weight, numbers, first, count);
    if (call.weight.layout().family == WeightFamily::int8_panels) {
      const Tensor none;
      const Tensor sums = executor.allocate({DType::f32, {rows.size(0), count}});
      if (!library.multiply(rows, piece, none, sums)) return false;
      scale_sums(executor, call, sums, first);
      return true;
    }
    const Tensor bias = call.bias.defined() ? call.bias.with_layout({count}, {1}, first) : Tensor{};
    const Tensor out =
        call.out.with_layout({call.out.size(0), count}, {call.out.stride(0), 1}, first);
    return library.multiply(rows, piece, bias, out);
  }
};

}  // namespace

bool multiply_expanded(DeviceExecutor& executor,
                       GemmLibrary& library,
                       const PackedCall& call,
                       int64_t piece_bytes) {
  const DType dtype = call.weight.dtype();
  const int64_t outputs = call.weight.size(0);
  const int64_t depth = call.weight.size(1);
  const int64_t row_bytes = depth * static_cast<int64_t>(dtype_bytes(dtype));
  // Whole panels, so that pieces of biases and results are aligned.
  const int64_t most = std::max(piece_bytes / row_bytes / kPanelColumns, int64_t{1});
  const int64_t piece = std::min(most * kPanelColumns, outputs);
  Expanded expanded = {.executor = executor,
                       .library = library,
                       .call = call,
                       .rows = elements_of(executor, call),
                       .numbers = executor.allocate({dtype, {piece, depth}})};
  for (int64_t first = 0; first < outputs; first += piece) {
    if (!expanded.multiply(first, std::min(piece, outputs - first))) return false;
  }
  return true;
}

}  // namespace reprise::kernels::cuda
