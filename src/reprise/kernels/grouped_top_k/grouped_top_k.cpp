#include "reprise/kernels/grouped_top_k/grouped_top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/grouped_top_k/grouped_top_k_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"
#include "reprise/kernels/top_k_softmax/top_k_softmax_arguments.h"

namespace reprise::kernels {
namespace {

void require_enough_experts(const GroupedRouting& routing, int64_t num_experts, bool has_bias) {
  const bool are_groups = routing.groups > 0 && num_experts % routing.groups == 0 &&
                          routing.top_groups > 0 && routing.top_groups <= routing.groups;
  const int64_t size = are_groups ? num_experts / routing.groups : 0;
  if (num_experts <= kMaxExperts && size >= (has_bias ? 2 : 1) &&
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

std::vector<double> scores_ref(const Tensor& logits, int64_t row, bool is_sigmoid) {
  std::vector<double> scores;
  double total = 0;
  for (int64_t i = 0; i < logits.size(1); ++i) {
    const double logit = element(logits, row, i);
    scores.push_back(is_sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit));
    total += scores.back();
  }
  if (!is_sigmoid) {
    for (double& score : scores) score /= total;
  }
  return scores;
}

size_t index_of_largest(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

// Removes the experts of all groups but the best ones.
void exclude_groups_ref(const GroupedRouting& routing,
                        bool counts_two,
                        std::vector<double>& choices) {
  const size_t size = choices.size() / static_cast<size_t>(routing.groups);
  const double none = -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  for (size_t group = 0; group * size < choices.size(); ++group) {
    std::vector<double> members(choices.begin() + static_cast<std::ptrdiff_t>(group * size),
                                choices.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(members.rbegin(), members.rend());
    scores.push_back(members[0] + (counts_two ? members[1] : 0.0));
  }
  std::vector<bool> is_chosen(scores.size());
  for (int64_t i = 0; i < routing.top_groups; ++i) {
    const size_t best = index_of_largest(scores);
    is_chosen[best] = true;
    scores[best] = none;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!is_chosen[i / size]) choices[i] = none;
  }
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
  require_enough_experts(routing, logits.size(1), bias.defined());
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
  const FloatKernels& kernel =
      bias.defined() ? kernels.grouped_sigmoid_top_k : kernels.grouped_softmax_top_k;
  return launch(stream,
                kernel_for(kernel, logits.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(weights), writes(experts), reads(logits), reads(bias)});
}

void grouped_top_k_ref(const GroupedRouting& routing,
                       const Tensor& logits,
                       const Tensor& bias,
                       const Tensor& weights,
                       const Tensor& experts) {
  for (int64_t row = 0; row < logits.size(0); ++row) {
    const std::vector<double> scores = scores_ref(logits, row, bias.defined());
    std::vector<double> choices = scores;
    for (size_t i = 0; bias.defined() && i < choices.size(); ++i) {
      choices[i] += element(bias, static_cast<int64_t>(i));
    }
    exclude_groups_ref(routing, bias.defined(), choices);
    double total = 0;
    for (int64_t k = 0; k < routing.top_k; ++k) {
      const size_t best = index_of_largest(choices);
      choices[best] = -std::numeric_limits<double>::infinity();
      experts.data_as<int32_t>()[row * routing.top_k + k] = static_cast<int32_t>(best);
      set_element(weights, scores[best] * routing.scale, row, k);
      total += scores[best];
    }
    for (int64_t k = 0; bias.defined() && k < routing.top_k; ++k) {
      set_element(weights, element(weights, row, k) / total, row, k);
    }
  }
}

namespace {

GroupedRouting routing_of(const OpRun& run) {
  const OpAttributes& attributes = run.call.attributes;
  return {.top_k = attributes.length,
          .groups = attributes.groups,
          .top_groups = attributes.top_groups,
          .scale = attributes.scale};
}

}  // namespace

bool launch_grouped_softmax_top_k(const OpRun& run) {
  return launch_grouped_top_k(
      run.stream, run.kernels, routing_of(run), run.in[0], {}, run.out[0], run.out[1]);
}
bool launch_grouped_sigmoid_top_k(const OpRun& run) {
  return launch_grouped_top_k(
      run.stream, run.kernels, routing_of(run), run.in[0], run.in[1], run.out[0], run.out[1]);
}

}  // namespace reprise::kernels
