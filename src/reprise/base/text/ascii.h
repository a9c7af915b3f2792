#pragma once

namespace reprise {

/// Whether `c` is one of the digits 0 to 9, whatever the locale.
[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace reprise
