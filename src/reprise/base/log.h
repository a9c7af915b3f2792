#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/line_writer.h"

namespace reprise {

enum class LogLevel : uint8_t { debug, info, warning, error };

/// Reads "debug", "WARNING", ...; also WARN and CRITICAL. \throws InvalidArgument
[[nodiscard]] LogLevel parse_log_level(std::string_view text);

struct LogOptions {
  LogLevel least = LogLevel::info;
  bool has_colors = false;
  std::string prefix;  // written at the start of every line
};

/// Writes lines for people and their scripts, in vLLM's form:
///
///     INFO 11-21 14:00:00 [serve_command.cpp:97] GPU KV cache size: 16,384 tokens
///
/// One write per line, so lines of several threads do not mix. Thread-safe; the file is borrowed.
/// With a LineWriter, no call waits for the reader of the log.
class Log {
 public:
  explicit Log(LogOptions options = {}, std::FILE* file = stderr)
      : options_(std::move(options)), file_(file) {}
  Log(LogOptions options, std::shared_ptr<LineWriter> lines)
      : options_(std::move(options)), file_(nullptr), lines_(std::move(lines)) {}

  [[nodiscard]] bool has(LogLevel level) const noexcept { return level >= options_.least; }

  void debug(std::string_view text,
             std::source_location place = std::source_location::current()) const {
    write(LogLevel::debug, text, place);
  }
  void info(std::string_view text,
            std::source_location place = std::source_location::current()) const {
    write(LogLevel::info, text, place);
  }
  void warning(std::string_view text,
               std::source_location place = std::source_location::current()) const {
    write(LogLevel::warning, text, place);
  }
  void error(std::string_view text,
             std::source_location place = std::source_location::current()) const {
    write(LogLevel::error, text, place);
  }

 private:
  void write(LogLevel level, std::string_view text, const std::source_location& place) const;

  LogOptions options_;
  std::FILE* file_;
  std::shared_ptr<LineWriter> lines_;  // instead of the file; shared by all copies of this log
};

}  // namespace reprise
