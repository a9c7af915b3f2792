#pragma once

#include <array>
#include <span>

namespace reprise::bench {

/// The percentiles that `bench latency` and `bench startup` print, the same as vLLM's.
inline constexpr std::array kLatencyPercentiles = {10, 25, 50, 75, 90, 99};

// These functions give numpy's results, in the unit of `values`; 0 if there are no values.
[[nodiscard]] double mean(std::span<const double> values);
[[nodiscard]] double median(std::span<const double> values);
/// Standard deviation of the population (ddof 0).
[[nodiscard]] double standard_deviation(std::span<const double> values);
/// Interpolates linearly between the two nearest ranks; `percent` is in 0..100.
[[nodiscard]] double percentile(std::span<const double> values, double percent);

}  // namespace reprise::bench
