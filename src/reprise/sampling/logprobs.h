#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::sampling {

struct TokenLogprob {
  int32_t token_id = -1;
  float logprob = 0.0F;  // natural log
  int rank = 0;          // 1 = most likely; of equal logits, the lower id comes first; 0 = unknown
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

/// Log-probabilities at one position: of the token at this position and of the likeliest tokens.
struct PositionLogprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // most likely first; may hold `token` too
  friend bool operator==(const PositionLogprobs&, const PositionLogprobs&) = default;
};

/// log(sum(exp(logits))), accumulated in f64. \pre the largest logit is finite, none is NaN.
[[nodiscard]] double log_sum_exp(std::span<const float> logits);

/// Log-probability and rank of one token. \pre token_id indexes logits.
[[nodiscard]] TokenLogprob token_logprob(std::span<const float> logits,  // [vocab_size]
                                         double log_normaliser,
                                         int32_t token_id);

/// Writes the `count` most likely tokens into `result`, most likely first; all tokens when there
/// are fewer.
void top_logprobs(std::span<const float> logits,  // [vocab_size]
                  double log_normaliser,
                  int count,
                  std::vector<TokenLogprob>& result);

/// Writes the log-probabilities of the given tokens into `result`, in their order and without
/// ranks: a rank costs one pass over the row. \pre the ids index logits.
void logprobs_of(std::span<const float> logits,  // [vocab_size]
                 double log_normaliser,
                 std::span<const int32_t> token_ids,
                 std::vector<TokenLogprob>& result);

/// Log-probabilities of the chosen token and of the likeliest tokens of one row. \pre the
/// conditions of log_sum_exp() and token_logprob()
[[nodiscard]] PositionLogprobs position_logprobs(std::span<const float> logits,  // [vocab_size]
                                                 int32_t token_id,
                                                 int num_top);

}  // namespace reprise::sampling
