// scripts/fuzz_parsers.sh puts this before every file if the compiler is a clang older than 15,
// whose <source_location> is empty.
#pragma once

#include <cstdint>

namespace std {

struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  [[nodiscard]] constexpr const char* file_name() const noexcept { return ""; }
  [[nodiscard]] constexpr const char* function_name() const noexcept { return ""; }
  [[nodiscard]] constexpr uint_least32_t line() const noexcept { return 0; }
  [[nodiscard]] constexpr uint_least32_t column() const noexcept { return 0; }
};

}  // namespace std
