#pragma once

#include <cstdint>

namespace reprise::kernels {

/// How the token of one row of logits is chosen. The meaning of each field, of ties and of the
/// order of the filters is sampling::Sampler's.
struct SamplingRow {
  uint64_t seed = 0;
  uint64_t position = 0;  // with the seed: which random number is drawn
  double min_p_edge = 0;  // ln(min_p) temperature, at most 0; -inf: off
  float temperature = 0;  // 0: greedy, nothing below is looked at
  float top_p = 1;        // 1: off
  int32_t top_k = 0;      // 0: off
  int32_t logits_row = 0;
  int32_t first_adjustment = 0;
  int32_t num_adjustments = 0;
};

/// What is added to a logit first; -inf: the token is never chosen.
struct LogitAdjustment {
  int32_t token_id = 0;
  float value = 0;
};

/// In the place of a token.
inline constexpr int32_t kNonFiniteLogits = -1;  // NaN or +inf
inline constexpr int32_t kNoAllowedToken = -2;   // all are -inf

}  // namespace reprise::kernels
