#include "reprise/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace reprise::sampling {

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

TokenLogprob token_logprob(std::span<const float> logits, double log_normaliser, int32_t token_id) {
  const auto index = static_cast<size_t>(token_id);
  const float logit = logits[index];
  int rank = 1;
  for (size_t i = 0; i < logits.size(); ++i) {
    rank += static_cast<int>(logits[i] > logit || (logits[i] == logit && i < index));
  }
  return {token_id, static_cast<float>(logit - log_normaliser), rank};
}

void top_logprobs(std::span<const float> logits,
                  double log_normaliser,
                  int count,
                  std::vector<TokenLogprob>& result) {
  result.clear();
  const size_t limit = std::min(static_cast<size_t>(count), logits.size());
  if (limit == 0) return;
  result.reserve(limit);
  // Keeps a sorted list. The list is short (`count` is at most kMaxLogprobs unless --max-logprobs
  // allows more), and few logits of a row enter it.
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (result.size() == limit) {
      if (!(logit > result.back().logprob)) continue;
      result.pop_back();
    }
    const auto place =
        std::find_if(result.begin(), result.end(), [logit](const TokenLogprob& kept) {
          return logit > kept.logprob;
        });
    result.insert(place, TokenLogprob{.token_id = static_cast<int32_t>(i), .logprob = logit});
  }
  for (size_t i = 0; i < result.size(); ++i) {
    result[i].logprob = static_cast<float>(result[i].logprob - log_normaliser);
    result[i].rank = static_cast<int>(i) + 1;
  }
}

void logprobs_of(std::span<const float> logits,
                 double log_normaliser,
                 std::span<const int32_t> token_ids,
                 std::vector<TokenLogprob>& result) {
  result.clear();
  for (const int32_t id : token_ids) {
    const float logit = logits[static_cast<size_t>(id)];
    result.push_back(
        {.token_id = id, .logprob = static_cast<float>(logit - log_normaliser), .rank = 0});
  }
}

PositionLogprobs position_logprobs(std::span<const float> logits, int32_t token_id, int num_top) {
  const double log_normaliser = log_sum_exp(logits);
  PositionLogprobs result{.token = token_logprob(logits, log_normaliser, token_id)};
  top_logprobs(logits, log_normaliser, num_top, result.top);
  return result;
}

}  // namespace reprise::sampling
