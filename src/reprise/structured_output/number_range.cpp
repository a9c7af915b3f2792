#include "reprise/structured_output/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace reprise::structured_output {
namespace {

constexpr int64_t kFractions = 1000000;

int64_t power_of_ten(int exponent) {
  int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

std::string any_of(const std::vector<std::string>& choices) {
  return fmt::format("({})", fmt::join(choices, " | "));
}

std::string digits(int64_t first, int64_t last) {
  return first == last ? fmt::format("\"{}\"", first) : fmt::format("[{}-{}]", first, last);
}

/// Numbers of exactly `width` digits, with leading zeros.
std::string padded_range(int width, int64_t low, int64_t high) {
  const int64_t rest = power_of_ten(width - 1);
  const int64_t first = low / rest;
  const int64_t last = high / rest;
  if (width == 1) return digits(first, last);
  const auto tail = [width](int64_t from, int64_t to) {
    return " " + padded_range(width - 1, from, to);
  };
  if (first == last) return digits(first, first) + tail(low % rest, high % rest);
  std::vector<std::string> choices;
  int64_t whole_from = first;
  int64_t whole_to = last;
  if (low % rest != 0) {
    choices.push_back(digits(first, first) + tail(low % rest, rest - 1));
    ++whole_from;
  }
  if (high % rest != rest - 1) --whole_to;
  if (whole_from <= whole_to) choices.push_back(digits(whole_from, whole_to) + tail(0, rest - 1));
  if (whole_to != last) choices.push_back(digits(last, last) + tail(0, high % rest));
  return choices.size() == 1 ? choices[0] : any_of(choices);
}

/// 0 <= low <= high.
std::string whole_range(int64_t low, int64_t high) {
  std::vector<std::string> choices;
  for (int width = 1; width <= 17; ++width) {
    const int64_t shortest = width == 1 ? 0 : power_of_ten(width - 1);
    const int64_t longest = power_of_ten(width) - 1;
    if (longest < low || shortest > high) continue;
    choices.push_back(padded_range(width, std::max(low, shortest), std::min(high, longest)));
  }
  return any_of(choices);
}

/// The decimal point and the digits after it, from `low` to `high` millionths. The fraction
/// is optional when it may be missing.
std::string fraction_range(int64_t low, int64_t high) {
  std::vector<std::string> choices;
  for (int width = 1; width <= kMaxFractionDigits; ++width) {
    const int64_t step = kFractions / power_of_ten(width);
    const int64_t from = (low + step - 1) / step;
    const int64_t to = high / step;
    if (from <= to) choices.push_back(padded_range(width, from, to));
  }
  return fmt::format("(\".\" {}){}", any_of(choices), low == 0 ? "?" : "");
}

struct Magnitude {
  int64_t whole;
  int64_t millionths;
};

Magnitude magnitude(double value) {
  const double whole = std::floor(std::abs(value));
  const auto millionths =
      static_cast<int64_t>(std::llround((std::abs(value) - whole) * double{kFractions}));
  const auto carried = static_cast<int64_t>(whole) + millionths / kFractions;
  return {carried, millionths % kFractions};
}

std::string magnitudes(Magnitude low, Magnitude high) {
  if (low.whole == high.whole) {
    return fmt::format("\"{}\" {}", low.whole, fraction_range(low.millionths, high.millionths));
  }
  std::vector<std::string> choices;
  choices.push_back(
      fmt::format("\"{}\" {}", low.whole, fraction_range(low.millionths, kFractions - 1)));
  if (low.whole + 1 < high.whole) {
    choices.push_back(whole_range(low.whole + 1, high.whole - 1) + " " +
                      fraction_range(0, kFractions - 1));
  }
  choices.push_back(fmt::format("\"{}\" {}", high.whole, fraction_range(0, high.millionths)));
  return any_of(choices);
}

}  // namespace

std::string integer_range(int64_t low, int64_t high) {
  std::vector<std::string> choices;
  if (low < 0) choices.push_back("\"-\" " + whole_range(std::max<int64_t>(1, -high), -low));
  if (high >= 0) choices.push_back(whole_range(std::max<int64_t>(0, low), high));
  return any_of(choices);
}

std::string decimal_range(double low, double high) {
  constexpr Magnitude kNothing{0, 0};
  constexpr Magnitude kLeast{0, 1};
  std::vector<std::string> choices;
  if (low < 0)
    choices.push_back("\"-\" " + magnitudes(high < 0 ? magnitude(high) : kLeast, magnitude(low)));
  if (high >= 0)
    choices.push_back(magnitudes(low > 0 ? magnitude(low) : kNothing, magnitude(high)));
  return any_of(choices);
}

}  // namespace reprise::structured_output
