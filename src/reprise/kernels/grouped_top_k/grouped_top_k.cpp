#include "reprise/kernels/grouped_top_k/grouped_top_k.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/grouped_top_k/grouped_top_k_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/top_k_softmax/top_k_softmax_arguments.h"

namespace reprise::kernels {
namespace {

void require_enough_experts(const GroupedRouting& routing, int64_t num_experts) {
  const bool are_groups = routing.groups > 0 && num_experts % routing.groups == 0 &&
                          routing.top_groups > 0 && routing.top_groups <= routing.groups;
  const int64_t size = are_groups ? num_experts / routing.groups : 0;
  if (num_experts <= kMaxExperts && size >= (routing.is_sigmoid ? 2 : 1) &&
      routing.top_k <= routing.top_groups * size) {
    return;
  }
  throw InvalidArgument(fmt::format(
      "grouped_top_k: {} experts of {} of {} groups out of {} experts, which are at most {}; "
      "expected groups of one size with enough experts",
      routing.top_k,
      routing.top_groups,
      routing.groups,
      num_experts,
      kMaxExperts));
}

}  // namespace

bool launch_grouped_top_k(device::Stream& stream,
                          const KernelTable& kernels,
                          const GroupedRouting& routing,
                          const Tensor& logits,
                          const Tensor& bias,
                          const Tensor& weights,
                          const Tensor& experts) {
  require_dense_rows(logits, "grouped_top_k");
  REPRISE_ASSERT(weights.is_dense() && experts.is_dense() && (!bias.defined() || bias.is_dense()),
                 "grouped_top_k: bias and results must be dense");
  REPRISE_ASSERT(bias.defined() || !routing.is_sigmoid, "grouped_top_k: sigmoids need a bias");
  REPRISE_ASSERT(routing.divides || routing.is_sigmoid,
                 "grouped_top_k: a softmax with a bias is always divided by its sum");
  require_enough_experts(routing, logits.size(1));
  const GroupedTopKArguments arguments = {
      .logits = logits.data(),
      .bias = bias.defined() ? bias.data_as<float>() : nullptr,
      .weights = weights.data_as<float>(),
      .experts = experts.data_as<int32_t>(),
      .layout = row_layout(logits),
      .tiles = row_tiles(logits.size(0), logits.size(1), RowCut::whole_rows),
      .top_k = routing.top_k,
      .groups = routing.groups,
      .top_groups = routing.top_groups,
      .scale = routing.scale,
  };
  const FloatKernels& of_sigmoids =
      routing.divides ? kernels.grouped_sigmoid_top_k : kernels.grouped_sigmoid_scores;
  const FloatKernels& kernel = routing.is_sigmoid ? of_sigmoids : kernels.grouped_softmax_top_k;
  return launch(stream,
                kernel_for(kernel, logits.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(weights), writes(experts), reads(logits), reads(bias)});
}

namespace {

GroupedRouting routing_of(const OpRun& run, bool is_sigmoid) {
  const OpAttributes& attributes = run.call.attributes;
  return {.is_sigmoid = is_sigmoid,
          .top_k = attributes.length,
          .groups = attributes.groups,
          .top_groups = attributes.top_groups,
          .scale = attributes.scale};
}

}  // namespace

bool launch_grouped_softmax_top_k(const OpRun& run) {
  return launch_grouped_top_k(run.stream,
                              run.kernels,
                              routing_of(run, false),
                              run.in[0],
                              run.in[1],
                              run.out[0],
                              run.out[1]);
}
bool launch_grouped_sigmoid_top_k(const OpRun& run) {
  return launch_grouped_top_k(
      run.stream, run.kernels, routing_of(run, true), run.in[0], run.in[1], run.out[0], run.out[1]);
}
bool launch_grouped_sigmoid_scores(const OpRun& run) {
  GroupedRouting routing = routing_of(run, true);
  routing.divides = false;
  return launch_grouped_top_k(
      run.stream, run.kernels, routing, run.in[0], run.in[1], run.out[0], run.out[1]);
}

}  // namespace reprise::kernels
