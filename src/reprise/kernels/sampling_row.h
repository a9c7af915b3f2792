#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The sampling parameters of one row of logits. sampling::Sampler defines the meaning of each
/// field, of ties and of the order of the filters.
struct SamplingRow {
  uint64_t seed = 0;
  uint64_t position = 0;  // selects the random number, together with the seed
  double min_p_edge = 0;  // ln(min_p) temperature, at most 0; -inf: off
  float temperature = 0;  // 0: greedy, the fields below are ignored
  float top_p = 1;        // 1: off
  int32_t top_k = 0;      // 0: off
  int32_t logits_row = 0;
  int32_t first_adjustment = 0;
  int32_t num_adjustments = 0;
};

/// A number that is added to a logit before anything else. -inf: the token is never chosen.
struct LogitAdjustment {
  int32_t token_id = 0;
  float value = 0;
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
