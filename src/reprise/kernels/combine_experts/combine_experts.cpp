#include "reprise/kernels/combine_experts/combine_experts.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/combine_experts/combine_experts_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

bool launch_combine_experts(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& x,
                            const Tensor& weights,
                            const Tensor& out) {
  require_dense_rows(x, "combine_experts");
  REPRISE_ASSERT(weights.is_dense() && out.is_dense(),
                 "combine_experts: weights and out must be dense");
  const CombineExpertsArguments arguments = {
      .x = x.data(),
      .weights = weights.data_as<float>(),
      .out = out.data(),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .x_stride = x.stride(0),
      .top_k = weights.size(1),
  };
  return launch(stream,
                kernel_for(kernels.combine_experts, x.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(x), reads(weights)});
}

void combine_experts_ref(const Tensor& x, const Tensor& weights, const Tensor& out) {
  const int64_t top_k = weights.size(1);
  for (int64_t row = 0; row < out.size(0); ++row) {
    for (int64_t i = 0; i < out.size(1); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < top_k; ++k) {
        sum += element(weights, row, k) * element(x, row * top_k + k, i);
      }
      set_element(out, sum, row, i);
    }
  }
}

bool launch_combine_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::combine_experts>();
  return launch_combine_experts(run.stream, run.kernels, in["x"], in["weights"], run.out[0]);
}

}  // namespace reprise::kernels
