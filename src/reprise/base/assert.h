#pragma once

#include <fmt/format.h>

#include <string_view>

namespace reprise::internal {

/// Prints the failed condition with its place and message to stderr and aborts.
[[noreturn]] void assert_failed(const char* condition,
                                const char* file,
                                int line,
                                std::string_view message) noexcept;

}  // namespace reprise::internal

/// For mistakes of the programmer only: user input must never make the condition false. The
/// condition has no side effects.
/// REPRISE_ASSERT(condition, "format {}", value) is also checked in Release builds.
#define REPRISE_ASSERT(condition, ...)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::reprise::internal::assert_failed(                              \
          #condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                  \
  } while (false)
