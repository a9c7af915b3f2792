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

/// Programmer mistakes only: never reachable by user input, no side effects in the condition.
/// REPRISE_ASSERT(condition, "format {}", value): stays on in Release.
#define REPRISE_ASSERT(condition, ...)                                 \
  do {                                                                 \
    if (!(condition)) [[unlikely]] {                                   \
      ::reprise::internal::assert_failed(                              \
          #condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
    }                                                                  \
  } while (false)
