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

/// The rows of x as elements.
Tensor elements_of(DeviceExecutor& executor, const PackedCall& call) {
  const bool is_in_blocks = call.weight.layout().family == WeightFamily::block_panels;
  return is_in_blocks ? dequantized(executor, call.x, call.weight.dtype()) : call.x;
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
  launch(executor.stream(),
         *kernels.floats,
         static_cast<uint32_t>(num_panels(count)),
         arguments,
         uses);
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
    const Tensor bias = call.bias.defined() ? call.bias.with_layout({count}, {1}, first) : Tensor{};
    const Tensor out = call.out.with_layout({rows.size(0), count}, {call.out.stride(0), 1}, first);
    return library.multiply(rows, piece, bias, out);
  }
};

}  // namespace

bool multiply_expanded(DeviceExecutor& executor,
                       GemmLibrary& library,
                       const PackedCall& call,
                       int64_t piece_bytes) {
  if (call.weight.layout().family == WeightFamily::int8_panels) return false;
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
