#pragma once

#include <span>

namespace reprise::bench {

// As numpy computes them, in the units of `values`; 0 when there are none.
[[nodiscard]] double mean(std::span<const double> values);
[[nodiscard]] double median(std::span<const double> values);
/// Of the population (ddof 0).
[[nodiscard]] double standard_deviation(std::span<const double> values);
/// Between the two nearest ranks by linear interpolation; `percent` in 0..100.
[[nodiscard]] double percentile(std::span<const double> values, double percent);

}  // namespace reprise::bench
