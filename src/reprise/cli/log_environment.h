#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "reprise/base/log.h"

namespace reprise::cli {

/// The level that set_log_level() was given, else the value of VLLM_LOGGING_LEVEL, else info. Every
/// command obeys it: DEBUG means --verbose, WARNING leaves out the summary of a start, ERROR also
/// leaves out its warnings. \throws InvalidArgument
[[nodiscard]] LogLevel log_level_of_environment();

/// An option has priority over VLLM_LOGGING_LEVEL. Main thread only.
void set_log_level(LogLevel level);

/// Sets the form of this process's messages on standard error outside of a log: text, until an
/// option asks for JSON. Main thread only.
void set_message_form(LogForm form);

/// A message in that form. In text it is written as it is; in JSON it is one line.
void print_message(LogLevel level, std::string_view text);

/// Prints to stderr, unless VLLM_LOGGING_LEVEL asks for less. \throws InvalidArgument
template <typename... Arguments>
void print_log(LogLevel level, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (level < log_level_of_environment()) return;
  print_message(level, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Reads VLLM_LOGGING_* and NO_COLOR the way vLLM does. `quiet`: warnings and errors only.
/// \throws InvalidArgument
[[nodiscard]] LogOptions log_options_of_environment(bool quiet);

}  // namespace reprise::cli
