#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The slot of a row without penalties.
inline constexpr int32_t kNoCountSlot = -1;

inline constexpr int32_t kNoLogprobs = -1;
/// OpenAI's API allows 20.
inline constexpr int32_t kMostTopLogits = 32;

/// The sampling parameters of one row of logits. sampling::Sampler defines the meaning of each
/// field, of ties and of the order of the filters.
struct alignas(16) SamplingRow {
  uint64_t seed = 0;
  uint64_t position = 0;  // selects the random number, together with the seed
  double min_p_edge = 0;  // ln(min_p) temperature, at most 0; -inf: off
  float temperature = 0;  // 0: greedy, the fields below are ignored
  float top_p = 1;        // 1: off
  int32_t top_k = 0;      // 0: off
  int32_t logits_row = 0;
  int32_t first_adjustment = 0;
  int32_t num_adjustments = 0;
  // Penalties of tokens that occurred; the slot says how often. They come after the adjustments.
  float repetition_penalty = 1;
  float frequency_penalty = 0;
  float presence_penalty = 0;
  int32_t count_slot = kNoCountSlot;  // kNoCountSlot: no penalties
  /// The number of likeliest tokens whose logits are wanted, at most kMostTopLogits; kNoLogprobs:
  /// none, and no log-probability either.
  int32_t num_logprobs = kNoLogprobs;
};

/// A number that is added to a logit before anything else. -inf: the token is never chosen.
struct LogitAdjustment {
  int32_t token_id = 0;
  float value = 0;
};

/// The numbers that the log-probabilities of a row are computed from. A token has the
/// log-probability logit - max - ln(sum).
struct RowLogprobs {
  struct Token {
    int32_t id = -1;
    float logit = 0;
  };
  double sum = 0;                 // of e^(logit - max) over the vocabulary
  float max = 0;                  // the largest logit
  float chosen = 0;               // the logit of the row's token
  int32_t rank = 0;               // of the row's token; see sampling::TokenLogprob
  int32_t num_top = kNoLogprobs;  // kNoLogprobs: nothing was wanted, or the row has no token
  Token top[kMostTopLogits];      // the likeliest tokens, the likeliest first
};

/// The place of a token that only the device knows: element `index` of the next step's ids is the
/// token of row `row` of a launch.
struct TokenPlace {
  int32_t index = 0;
  int32_t row = 0;
};

/// Values that replace a token if a row has none.
inline constexpr int32_t kNonFiniteLogits = -1;  // a logit is NaN or +inf
inline constexpr int32_t kNoAllowedToken = -2;   // all logits are -inf

}  // namespace reprise::kernels
