#include "reprise/kernels/select_experts/select_experts.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/select_experts/select_experts_arguments.h"

namespace reprise::kernels {
namespace {

// The experts among which a token may choose; 0: the groups do not fit the function or the experts.
int64_t num_candidates(const ExpertChoice& choice, int64_t num_experts, bool has_bias) {
  if (chooses_by_logits(choice.function)) {
    return has_bias || choice.groups != 0 || choice.top_groups != 0 ? 0 : num_experts;
  }
  const bool are_groups = choice.groups > 0 && num_experts % choice.groups == 0 &&
                          choice.top_groups > 0 && choice.top_groups <= choice.groups;
  const int64_t size = are_groups ? num_experts / choice.groups : 0;
  return size >= (has_sigmoids(choice.function) ? 2 : 1) ? choice.top_groups * size : 0;
}

}  // namespace

bool launch_select_experts(device::Stream& stream,
                           const KernelTable& kernels,
                           const ExpertChoice& choice,
                           const Tensor& logits,
                           const Tensor& bias,
                           const Tensor& weights,
                           const Tensor& experts) {
  require_dense_rows(logits, "select_experts");
  REPRISE_ASSERT(weights.is_dense() && experts.is_dense() && (!bias.defined() || bias.is_dense()),
                 "select_experts: bias and results must be dense");
  const int64_t num_experts = logits.size(1);
  if (choice.top_k > num_candidates(choice, num_experts, bias.defined()) ||
      num_experts > kMaxExperts) {
    throw InvalidArgument(fmt::format(
        "select_experts: {} experts of {} of {} groups out of {} experts, which are at most {}, {} "
        "bias; expected enough experts in groups of one size, or no groups and no bias where the "
        "logits decide",
        choice.top_k,
        choice.top_groups,
        choice.groups,
        num_experts,
        kMaxExperts,
        bias.defined() ? "with a" : "without"));
  }
  const SelectExpertsArguments arguments = {
      .logits = logits.data(),
      .bias = bias.defined() ? bias.data_as<float>() : nullptr,
      .weights = weights.data_as<float>(),
      .experts = experts.data_as<int32_t>(),
      .layout = row_layout(logits),
      .tiles = row_tiles(logits.size(0), num_experts, RowCut::whole_rows),
      .top_k = choice.top_k,
      .groups = choice.groups,
      .top_groups = choice.top_groups,
      .scale = choice.scale,
      .function = choice.function,
  };
  return launch(stream,
                kernel_for(kernels.select_experts, logits.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(weights), writes(experts), reads(logits), reads(bias)});
}

bool launch_select_experts(const OpRun& run) {
  const auto in = run.operands<OpCode::select_experts>();
  const OpAttributes& attributes = run.call.attributes;
  return launch_select_experts(run.stream,
                               run.kernels,
                               {.function = attributes.function,
                                .top_k = attributes.length,
                                .groups = attributes.groups,
                                .top_groups = attributes.top_groups,
                                .scale = attributes.scale},
                               in["logits"],
                               in["bias"],
                               run.out[0],
                               run.out[1]);
}

}  // namespace reprise::kernels
