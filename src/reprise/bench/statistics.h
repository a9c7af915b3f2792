#pragma once

#include <array>
#include <span>

namespace reprise::bench {

/// Percentiles of the latencies that `bench latency` and `bench startup` print, as vLLM's do.
inline constexpr std::array kLatencyPercentiles = {10, 25, 50, 75, 90, 99};

// These functions give numpy's results, in the units of `values`, and 0 for no values.
[[nodiscard]] double mean(std::span<const double> values);
[[nodiscard]] double median(std::span<const double> values);
/// Standard deviation of the population (ddof 0).
[[nodiscard]] double standard_deviation(std::span<const double> values);
/// Interpolates linearly between the two nearest ranks; `percent` is in 0..100.
[[nodiscard]] double percentile(std::span<const double> values, double percent);

}  // namespace reprise::bench
