#pragma once

#include <cstdint>

namespace reprise::kernels {

/// A row of logits is divided into parts of this many logits.
inline constexpr int64_t kLogitPart = 64;
/// The number of levels of one LogitMassArguments.
inline constexpr int kLogitLevels = 8;

/// The largest logit of each part. These kernels are not ops: each takes one block.
struct alignas(16) LogitMaximaArguments {
  const float* logits;
  int64_t size;
  float* maxima;  // one per part
  // Set to 1, or to 0 if a logit is NaN or +inf: the maxima then have no meaning.
  int32_t* is_allowed;
};

/// The weight of a logit is exp((logit - max) * inverse_temperature).
struct alignas(16) LogitWeightsArguments {
  const float* logits;
  int64_t size;
  const float* maxima;  // of the parts
  float* sums;          // sums of the weights of each part, without logits below `least`
  float max;
  float inverse_temperature;
  float least;
};

/// masses[i] is the sum of the weights of all logits that are at least levels[i].
struct alignas(16) LogitMassArguments {
  const float* logits;
  int64_t size;
  const float* maxima;  // of the parts
  double* masses;       // [kLogitLevels]
  float levels[kLogitLevels];
  float max;
  float inverse_temperature;
};

}  // namespace reprise::kernels
