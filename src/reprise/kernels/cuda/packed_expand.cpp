#include "reprise/kernels/cuda/packed_expand.h"

#include <algorithm>

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

}  // namespace

bool multiply_expanded(DeviceExecutor& executor,
                       GemmLibrary& library,
                       const Tensor& x,
                       const Tensor& weight,
                       const Tensor& bias,
                       const Tensor& out,
                       int64_t piece_bytes) {
  const DType dtype = weight.dtype();
  const int64_t outputs = weight.size(0);
  const int64_t depth = weight.size(1);
  const int64_t row_bytes = depth * static_cast<int64_t>(dtype_bytes(dtype));
  // Whole panels, so that pieces of biases and results are aligned.
  const int64_t most = std::max(piece_bytes / row_bytes / kPanelColumns, int64_t{1});
  const int64_t piece = std::min(most * kPanelColumns, outputs);
  const int64_t panels = num_panels(outputs) + PanelHeader::kMaxParts - 1;
  const Tensor rows = dequantized(executor, x, dtype);
  const Tensor numbers = executor.allocate({dtype, {piece, depth}});
  for (int64_t first = 0; first < outputs; first += piece) {
    const int64_t count = std::min(piece, outputs - first);
    const ExpandPanelsArguments arguments = {
        .weight = weight.data(), .out = numbers.data(), .first = first, .count = count};
    launch(executor.stream(),
           *expand_kernels(dtype).panels,
           static_cast<uint32_t>(panels),
           arguments,
           std::array{writes(numbers), reads(weight)});
    const Tensor part_of_bias = bias.defined() ? bias.with_layout({count}, {1}, first) : Tensor{};
    if (!library.multiply(rows,
                          numbers.with_layout({count, depth}, {depth, 1}, 0),
                          part_of_bias,
                          out.with_layout({out.size(0), count}, {out.stride(0), 1}, first))) {
      return false;
    }
  }
  return true;
}

}  // namespace reprise::kernels::cuda
