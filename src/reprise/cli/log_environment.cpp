#include "reprise/cli/log_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "reprise/base/error.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/standard_streams.h"

namespace reprise::cli {
namespace {

LogForm& message_form() {
  static LogForm form = LogForm::text;
  return form;
}

std::optional<LogLevel>& level_of_option() {
  static std::optional<LogLevel> level;
  return level;
}

}  // namespace

void set_log_level(LogLevel level) { level_of_option() = level; }

void set_message_form(LogForm form) { message_form() = form; }

void print_message(LogLevel level, std::string_view text) {
  if (message_form() == LogForm::text) {
    print_error("{}", text);
    return;
  }
  constexpr std::string_view kWarning = "warning: ";
  if (text.starts_with(kWarning)) text.remove_prefix(kWarning.size());
  text = text.substr(0, text.find_last_not_of('\n') + 1);
  print_error("{}", format_log_line({.form = LogForm::json}, level, "command_line", text));
}

LogLevel log_level_of_environment() {
  if (level_of_option()) return *level_of_option();
  const auto level = look_up_process_environment("VLLM_LOGGING_LEVEL");
  if (!level || level->empty()) return LogLevel::info;
  try {
    return parse_log_level(*level);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("VLLM_LOGGING_LEVEL: {}", error.what()));
  }
}

LogOptions log_options_of_environment(bool quiet) {
  LogOptions options;
  options.least = log_level_of_environment();
  if (quiet) options.least = std::max(options.least, LogLevel::warning);
  options.prefix = look_up_process_environment("VLLM_LOGGING_PREFIX").value_or("");
  const std::string color = look_up_process_environment("VLLM_LOGGING_COLOR").value_or("auto");
  const bool is_wanted = color == "1" || (color != "0" && isatty(STDERR_FILENO) != 0);
  options.has_colors = is_wanted && look_up_process_environment("NO_COLOR").value_or("").empty();
  return options;
}

}  // namespace reprise::cli
