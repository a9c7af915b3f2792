#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace reprise::cli {

/// As fmt::print to standard error, but never throws: a message that cannot be written, because the
/// disk is full or the stream is closed, must not end the work that it is about.
template <typename... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  const std::string text = fmt::format(format, std::forward<Arguments>(arguments)...);
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Opens what the caller has closed of standard input, output and error, so that no file of the
/// program gets the number of one of them. Standard output then refuses every write, as if it were
/// still closed.
void open_standard_streams();

}  // namespace reprise::cli
