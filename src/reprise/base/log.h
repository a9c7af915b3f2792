#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/base/line_writer.h"

namespace reprise {

enum class LogLevel : uint8_t { debug, info, warning, error };

/// Reads "debug", "WARNING", ...; also WARN and CRITICAL. \throws InvalidArgument
[[nodiscard]] LogLevel parse_log_level(std::string_view text);

enum class LogForm : uint8_t { text, json };

struct LogOptions {
  LogLevel least = LogLevel::info;
  bool has_colors = false;  // of the text form
  std::string prefix;       // of the text form: written at the start of every line
  LogForm form = LogForm::text;
};

/// Facts that a line in JSON has as members of their own, so that programs need not read the
/// message.
using LogFields = std::vector<std::pair<std::string_view, Json>>;

/// One message as it is written, with its line end. The text form is vLLM's:
///
///     INFO 11-21 14:00:00 [serve_command.cpp:97] GPU KV cache size: 16,384 tokens
///
/// The JSON form is one object in ASCII: "time" (RFC 3339, UTC), "level", "module", "message", then
/// the fields. `text` may come from a client: control characters and bytes that are not UTF-8 are
/// escaped, and in the text form a further line of the message is indented. So no message can look
/// like another line of the log.
[[nodiscard]] std::string format_log_line(const LogOptions& options,
                                          LogLevel level,
                                          std::string_view module,
                                          std::string_view text,
                                          const LogFields& fields = {});

/// Writes messages as format_log_line() makes them. One write per message, so messages of several
/// threads do not mix. Thread-safe; the file is borrowed. With a LineWriter, no call waits for the
/// reader of the log.
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
  /// A message of a named part of the program, with fields for the JSON form.
  void write(LogLevel level,
             std::string_view module,
             std::string_view text,
             const LogFields& fields) const;

 private:
  void write(LogLevel level, std::string_view text, const std::source_location& place) const;

  LogOptions options_;
  std::FILE* file_;
  std::shared_ptr<LineWriter> lines_;  // instead of the file; shared by all copies of this log
};

}  // namespace reprise
