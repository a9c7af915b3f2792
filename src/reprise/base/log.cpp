#include "reprise/base/log.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
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

}  // namespace

LogLevel parse_log_level(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (upper == "WARN") return LogLevel::warning;
  if (upper == "CRITICAL") return LogLevel::error;
  for (const LevelName& candidate : kLevels) {
    if (upper == candidate.name) return candidate.level;
  }
  throw InvalidArgument(fmt::format("'{}' is not one of DEBUG, INFO, WARNING, ERROR", text));
}

void Log::write(LogLevel level, std::string_view text, const std::source_location& place) const {
  if (!has(level)) return;
  const LevelName& name = kLevels.at(static_cast<size_t>(level));
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%m-%d %H:%M:%S", &local);
  std::string_view file = place.file_name();
  file = file.substr(file.rfind('/') + 1);
  std::string line = fmt::format("{}{}{}{} {} [{}:{}] {}\n",
                                 options_.prefix,
                                 options_.has_colors ? name.color : "",
                                 name.name,
                                 options_.has_colors ? "\033[0m" : "",
                                 time.data(),
                                 file,
                                 place.line(),
                                 text);
  if (lines_) return lines_->write(std::move(line));
  std::fwrite(line.data(), 1, line.size(), file_);
  std::fflush(file_);
}

}  // namespace reprise
