#include "reprise/kernels/cuda/head_product_launch.h"

#include "reprise/kernels/cpu_executor.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/head_product_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"

namespace reprise::kernels::cuda {
namespace {

bool has_aligned_heads(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % 16 == 0 && tensor.stride(0) % 8 == 0 &&
         tensor.stride(1) % 8 == 0 && tensor.stride(2) == 1;
}

bool fit_tensor_cores(const Tensor& x, const Tensor& weight) {
  return x.dtype() != DType::f32 && has_aligned_heads(x) && has_aligned_heads(weight) &&
         weight.is_dense() && weight.size(1) % 8 == 0 && x.size(2) % 8 == 0;
}

}  // namespace

bool launch_head_product(const OpRun& run) {
  const auto in = run.operands<OpCode::head_linear>();
  const Tensor& x = in["x"];
  const Tensor& weight = in["weight"];
  const Tensor& out = run.out[0];
  if (!fit_tensor_cores(x, weight) || !out.is_dense()) {
    return cpu_launches()[static_cast<size_t>(OpCode::head_linear)](run);
  }
  const bool is_wide = x.size(0) > kMostNarrowHeadRows;
  const HeadTile& tile = is_wide ? kWideHeadTile : kNarrowHeadTile;
  const HeadLinearArguments arguments =
      head_linear_arguments(x, weight, out, tile.rows(), tile.columns());
  const HeadProductKernels kernels = head_product_kernels(x.dtype());
  return launch(run.stream,
                is_wide ? *kernels.wide : *kernels.narrow,
                static_cast<uint32_t>(arguments.heads * arguments.blocks_per_head),
                arguments,
                std::array{writes(out), reads(x), reads(weight)});
}

}  // namespace reprise::kernels::cuda
