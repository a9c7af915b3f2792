#include "tests/support/kernels/oracles/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reprise/kernels/reference.h"

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

void top_k_softmax_ref(RoutingSoftmax softmax,
                       const Tensor& logits,
                       const Tensor& weights,
                       const Tensor& experts) {
  const int64_t num_experts = logits.size(1);
  const int64_t top_k = weights.size(1);
  for (int64_t row = 0; row < logits.size(0); ++row) {
    std::vector<int64_t> order(static_cast<size_t>(num_experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return element(logits, row, a) > element(logits, row, b);
    });
    const int64_t counted = softmax == RoutingSoftmax::over_all_experts ? num_experts : top_k;
    const auto exp_of = [&](int64_t i) {
      return std::exp(element(logits, row, order[static_cast<size_t>(i)]) -
                      element(logits, row, order[0]));
    };
    double total = 0;
    for (int64_t i = 0; i < counted; ++i) total += exp_of(i);
    for (int64_t i = 0; i < top_k; ++i) {
      set_element(weights, softmax == RoutingSoftmax::none ? 1 : exp_of(i) / total, row, i);
      experts.data_as<int32_t>()[row * top_k + i] =
          static_cast<int32_t>(order[static_cast<size_t>(i)]);
    }
  }
}

void grouped_top_k_ref(const GroupedRouting& routing,
                       const Tensor& logits,
                       const Tensor& bias,
                       const Tensor& weights,
                       const Tensor& experts) {
  for (int64_t row = 0; row < logits.size(0); ++row) {
    const std::vector<double> scores = scores_ref(logits, row, routing.is_sigmoid);
    std::vector<double> choices = scores;
    for (size_t i = 0; bias.defined() && i < choices.size(); ++i) {
      choices[i] += element(bias, static_cast<int64_t>(i));
    }
    exclude_groups_ref(routing, routing.is_sigmoid, choices);
    double total = 0;
    for (int64_t k = 0; k < routing.top_k; ++k) {
      const size_t best = index_of_largest(choices);
      choices[best] = -std::numeric_limits<double>::infinity();
      experts.data_as<int32_t>()[row * routing.top_k + k] = static_cast<int32_t>(best);
      set_element(weights, scores[best] * routing.scale, row, k);
      total += scores[best];
    }
    for (int64_t k = 0; bias.defined() && routing.divides && k < routing.top_k; ++k) {
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
