#include "reprise/bench/random_source.h"

#include <cmath>
#include <numbers>

namespace reprise::bench {

double RandomSource::uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

int64_t RandomSource::integer(int64_t low, int64_t high) {
  const uint64_t count = static_cast<uint64_t>(high - low) + 1;
  if (count == 0) return static_cast<int64_t>(engine_());
  // Without this limit, small results would be more likely: numbers from the largest multiple of
  // `count` on are drawn again.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % count;
  uint64_t draw = engine_();
  while (draw >= limit) draw = engine_();
  return low + static_cast<int64_t>(draw % count);
}

double RandomSource::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

// Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double RandomSource::gamma(double shape, double scale) {
  if (shape < 1) {
    const double boosted = gamma(shape + 1, scale);
    return boosted * std::pow(1 - uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double cube = std::pow(1 + c * x, 3);
    if (cube <= 0) continue;
    if (std::log(1 - uniform()) < x * x / 2 + d - d * cube + d * std::log(cube)) {
      return d * cube * scale;
    }
  }
}

}  // namespace reprise::bench
