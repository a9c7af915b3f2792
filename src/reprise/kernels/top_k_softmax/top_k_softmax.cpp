#include "reprise/kernels/top_k_softmax/top_k_softmax.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/top_k_softmax/top_k_softmax_arguments.h"

namespace reprise::kernels {
namespace {

const FloatKernels& kernels_of(RoutingSoftmax softmax, const KernelTable& kernels) {
  switch (softmax) {
    case RoutingSoftmax::over_all_experts:
      return kernels.softmax_top_k;
    case RoutingSoftmax::over_chosen_experts:
      return kernels.top_k_softmax;
    case RoutingSoftmax::none:
      break;
  }
  return kernels.top_k_ones;
}

}  // namespace

bool launch_top_k_softmax(device::Stream& stream,
                          const KernelTable& kernels,
                          RoutingSoftmax softmax,
                          const Tensor& logits,
                          const Tensor& weights,
                          const Tensor& experts) {
  require_dense_rows(logits, "top_k_softmax");
  REPRISE_ASSERT(weights.is_dense() && experts.is_dense(), "top_k_softmax: results must be dense");
  const int64_t num_experts = logits.size(1);
  const int64_t top_k = weights.size(1);
  if (top_k > num_experts || num_experts > kMaxExperts) {
    throw InvalidArgument(
        fmt::format("top_k_softmax: {} of {} experts; expected at most all of at most {}",
                    top_k,
                    num_experts,
                    kMaxExperts));
  }
  const TopKSoftmaxArguments arguments = {
      .logits = logits.data(),
      .weights = weights.data_as<float>(),
      .experts = experts.data_as<int32_t>(),
      .layout = row_layout(logits),
      .tiles = row_tiles(logits.size(0), num_experts, RowCut::whole_rows),
      .top_k = top_k,
  };
  return launch(stream,
                kernel_for(kernels_of(softmax, kernels), logits.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(weights), writes(experts), reads(logits)});
}

bool launch_softmax_top_k(const OpRun& run) {
  return launch_top_k_softmax(
      run.stream, run.kernels, RoutingSoftmax::over_all_experts, run.in[0], run.out[0], run.out[1]);
}
bool launch_top_k_softmax(const OpRun& run) {
  return launch_top_k_softmax(run.stream,
                              run.kernels,
                              RoutingSoftmax::over_chosen_experts,
                              run.in[0],
                              run.out[0],
                              run.out[1]);
}
bool launch_top_k_ones(const OpRun& run) {
  return launch_top_k_softmax(
      run.stream, run.kernels, RoutingSoftmax::none, run.in[0], run.out[0], run.out[1]);
}

}  // namespace reprise::kernels
