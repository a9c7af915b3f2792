#pragma once

#include <cstddef>

namespace reprise::device {

/// The bytes of a transparent huge page (Linux on x86-64).
inline constexpr size_t kHugePage = size_t{2} << 20;

/// The smallest multiple of `multiple` (> 0) that is at least `value`.
/// \pre value + multiple does not overflow
[[nodiscard]] constexpr size_t round_up(size_t value, size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace reprise::device
