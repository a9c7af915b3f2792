#include "tests/support/kernels/oracles/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

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
void exclude_groups_ref(const ExpertChoice& choice, bool counts_two, std::vector<double>& choices) {
  const size_t size = choices.size() / static_cast<size_t>(choice.groups);
  const double none = -std::numeric_limits<double>::infinity();
  std::vector<double> scores;
  for (size_t group = 0; group * size < choices.size(); ++group) {
    std::vector<double> members(choices.begin() + static_cast<std::ptrdiff_t>(group * size),
                                choices.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(members.rbegin(), members.rend());
    scores.push_back(members[0] + (counts_two ? members[1] : 0.0));
  }
  std::vector<bool> is_chosen(scores.size());
  for (int64_t i = 0; i < choice.top_groups; ++i) {
    const size_t best = index_of_largest(scores);
    is_chosen[best] = true;
    scores[best] = none;
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!is_chosen[i / size]) choices[i] = none;
  }
}

}  // namespace

void select_experts_ref(const ExpertChoice& choice,
                        const Tensor& logits,
                        const Tensor& bias,
                        const Tensor& weights,
                        const Tensor& experts) {
  const OpFunction function = choice.function;
  const bool is_sigmoid =
      function == OpFunction::sigmoid || function == OpFunction::normalized_sigmoid;
  const bool divides = function == OpFunction::softmax_of_chosen ||
                       function == OpFunction::normalized_softmax ||
                       function == OpFunction::normalized_sigmoid;
  for (int64_t row = 0; row < logits.size(0); ++row) {
    const std::vector<double> scores = scores_ref(logits, row, is_sigmoid);
    std::vector<double> choices = scores;
    for (size_t i = 0; bias.defined() && i < choices.size(); ++i) {
      choices[i] += element(bias, static_cast<int64_t>(i));
    }
    if (choice.groups > 0) exclude_groups_ref(choice, is_sigmoid, choices);
    double total = 0;
    for (int64_t k = 0; k < choice.top_k; ++k) {
      const size_t best = index_of_largest(choices);
      choices[best] = -std::numeric_limits<double>::infinity();
      experts.data_as<int32_t>()[row * choice.top_k + k] = static_cast<int32_t>(best);
      const double weight = function == OpFunction::ones ? 1 : scores[best];
      set_element(weights, weight * choice.scale, row, k);
      total += weight;
    }
    for (int64_t k = 0; divides && k < choice.top_k; ++k) {
      set_element(weights, element(weights, row, k) / total, row, k);
    }
  }
}

void local_experts_ref(LocalExperts mine,
                       const Tensor& weights,
                       const Tensor& experts,
                       const Tensor& local_weights,
                       const Tensor& local_ids) {
  for (int64_t token = 0; token < experts.size(0); ++token) {
    for (int64_t k = 0; k < experts.size(1); ++k) {
      const int64_t local = int_element(experts, token, k) - mine.begin;
      const bool is_mine = local >= 0 && local < mine.count;
      const int64_t at = token * experts.size(1) + k;
      local_ids.data_as<int32_t>()[at] = is_mine ? static_cast<int32_t>(local) : -1;
      local_weights.data_as<float>()[at] =
          is_mine ? static_cast<float>(element(weights, token, k)) : 0.0F;
    }
  }
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

}  // namespace reprise::kernels
