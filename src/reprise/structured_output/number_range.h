#pragma once

#include <cstdint>
#include <string>

namespace reprise::structured_output {

/// Most digits of a decimal after the point.
inline constexpr int kMaxFractionDigits = 6;

/// EBNF for the integers from `low` to `high`, as JSON writes them: no "-0", no leading zeros. Both
/// within +-9e15, low <= high.
[[nodiscard]] std::string integer_range(int64_t low, int64_t high);

/// The same for decimals without exponents. Both ends are rounded to millionths.
[[nodiscard]] std::string decimal_range(double low, double high);

}  // namespace reprise::structured_output
