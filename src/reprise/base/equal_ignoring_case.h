#pragma once

#include <algorithm>
#include <string_view>

namespace reprise {

/// Compares names in ASCII. beast::iequals reads one byte after texts that differ in case
/// (Boost 1.81), so code that reads requests uses this function.
inline bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace reprise
