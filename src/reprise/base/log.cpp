#include "reprise/base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <ctime>
#include <utility>

#include "reprise/base/error.h"

namespace reprise {
namespace {

struct LevelName {
  LogLevel level;
  std::string_view name;
  std::string_view color;
};
constexpr std::array kLevels = {
    LevelName{LogLevel::debug, "DEBUG", "\033[37m"},
    LevelName{LogLevel::info, "INFO", "\033[32m"},
    LevelName{LogLevel::warning, "WARNING", "\033[33m"},
    LevelName{LogLevel::error, "ERROR", "\033[31m"},
};

constexpr std::string_view kIndent = "    ";

/// Number of bytes of the UTF-8 character at the start of `text`; 0: the bytes are not UTF-8.
size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size == 0 || lead > 0xF4 || text.size() < size) return 0;
  const bool is_whole = std::all_of(text.begin() + 1,
                                    text.begin() + static_cast<ptrdiff_t>(size),
                                    [](unsigned char c) { return (c & 0xC0U) == 0x80; });
  return is_whole ? size : 0;
}

/// Whether a terminal would obey the character instead of showing it.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;  // U+0080 to U+009F
}

/// Escapes `text` for the text form of a log.
std::string escaped(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t size = character_size(text);
    const std::string_view character = text.substr(0, std::max<size_t>(size, 1));
    if (character == "\n") {
      (shown += '\n') += kIndent;
    } else if (size == 0 || is_control(character)) {
      for (const unsigned char byte : character) shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += character;
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

/// "2026-11-28T14:00:00.123Z"
std::string utc_time(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const auto rest = std::chrono::duration_cast<milliseconds>(time.time_since_epoch()) % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text.data(), rest.count());
}

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper == "WARN") return LogLevel::warning;
  if (upper == "CRITICAL" || upper == "FATAL") return LogLevel::error;
  for (const LevelName& candidate : kLevels) {
    if (upper == candidate.name) return candidate.level;
  }
  throw InvalidArgument(fmt::format("'{}' is not one of DEBUG, INFO, WARNING, ERROR", text));
}

std::string format_log_line(const LogOptions& options,
                            LogLevel level,
                            std::string_view module,
                            std::string_view text,
                            const LogFields& fields) {
  const LevelName& name = kLevels.at(static_cast<size_t>(level));
  const auto now = std::chrono::system_clock::now();
  if (options.form == LogForm::json) {
    Json line = {
        {"time", utc_time(now)}, {"level", name.name}, {"module", module}, {"message", text}};
    for (const auto& [key, value] : fields) line[std::string(key)] = value;
    return line.dump(-1, ' ', true, Json::error_handler_t::replace) + '\n';
  }
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%m-%d %H:%M:%S", &local);
  return fmt::format("{}{}{}{} {} [{}] {}\n",
                     options.prefix,
                     options.has_colors ? name.color : "",
                     name.name,
                     options.has_colors ? "\033[0m" : "",
                     time.data(),
                     module,
                     escaped(text.substr(0, text.find_last_not_of('\n') + 1)));
}

void Log::write(LogLevel level,
                std::string_view module,
                std::string_view text,
                const LogFields& fields) const {
  if (!has(level)) return;
  std::string line = format_log_line(options_, level, module, text, fields);
  if (lines_) return lines_->write(std::move(line));
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

void Log::write(LogLevel level, std::string_view text, const std::source_location& place) const {
  if (!has(level)) return;
  std::string_view file = place.file_name();
  file = file.substr(file.rfind('/') + 1);
  write(level, fmt::format("{}:{}", file, place.line()), text, {});
}

}  // namespace reprise
