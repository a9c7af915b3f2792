#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "reprise/base/log.h"

namespace reprise::cli {

/// VLLM_LOGGING_LEVEL; info if it is not set. Every command follows it: DEBUG is --verbose, WARNING
/// leaves out the summary of a start, ERROR also its warnings. \throws InvalidArgument
[[nodiscard]] LogLevel log_level_of_environment();

/// Prints to stderr, unless VLLM_LOGGING_LEVEL asks for less. \throws InvalidArgument
template <typename... Arguments>
void print_log(LogLevel level, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (level < log_level_of_environment()) return;
  fmt::print(stderr, text, std::forward<Arguments>(arguments)...);
}

/// Reads VLLM_LOGGING_* and NO_COLOR the way vLLM does. `quiet`: warnings and errors only.
/// \throws InvalidArgument
[[nodiscard]] LogOptions log_options_of_environment(bool quiet);

}  // namespace reprise::cli
