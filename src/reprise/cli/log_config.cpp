#include "reprise/cli/log_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::cli {
namespace {

constexpr auto kTopMembers = std::to_array<std::string_view>({"version",
                                                              "disable_existing_loggers",
                                                              "incremental",
                                                              "filters",
                                                              "formatters",
                                                              "handlers",
                                                              "loggers",
                                                              "root"});
constexpr auto kFormatterMembers =
    std::to_array<std::string_view>({"class", "()", "format", "fmt", "datefmt"});
constexpr auto kHandlerMembers = std::to_array<std::string_view>(
    {"class", "formatter", "level", "stream", "filename", "mode", "encoding", "delay"});
constexpr auto kLoggerMembers = std::to_array<std::string_view>({"handlers", "level", "propagate"});
constexpr auto kOwnLoggers = std::to_array<std::string_view>({"reprise", "vllm", ""});
constexpr auto kServerLoggers = std::to_array<std::string_view>({"uvicorn", "uvicorn.error"});
constexpr std::string_view kAccessLogger = "uvicorn.access";

// vLLM's plain formatters, and the format of lines and the format of times that they use.
constexpr auto kPlainClasses =
    std::to_array<std::string_view>({"logging.Formatter",
                                     "vllm.logging_utils.NewLineFormatter",
                                     "vllm.logging_utils.ColoredFormatter",
                                     "uvicorn.logging.DefaultFormatter",
                                     "uvicorn.logging.AccessFormatter"});
constexpr auto kPlainFormats = std::to_array<std::string_view>(
    {"%(levelname)s %(asctime)s [%(fileinfo)s:%(lineno)d] %(message)s",
     "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"});
constexpr std::string_view kPlainTime = "%m-%d %H:%M:%S";

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// A member of the file with its path in the file, for messages.
struct Member {
  const Json* json = nullptr;
  std::string place;  // "log.json: handlers.console"

  [[noreturn]] void refuse(std::string_view what) const {
    throw InvalidArgument(fmt::format("{}: {}", place, what));
  }
  /// The member `name`; if it is missing, a Member whose json is null.
  [[nodiscard]] Member operator[](const std::string& name) const {
    Member member{.place = fmt::format("{}{}{}", place, is_file ? ": " : ".", name)};
    if (json == nullptr) return member;
    if (!json->is_object()) refuse("expected an object");
    const auto found = json->find(name);
    if (found != json->end() && !found->is_null()) member.json = &*found;
    return member;
  }
  void allow(std::span<const std::string_view> names) const {
    if (json == nullptr) return;
    if (!json->is_object()) refuse("expected an object");
    for (const auto& [name, value] : json->items()) {
      if (contains(names, name)) continue;
      (*this)[name].refuse(
          fmt::format("has no effect here; known members are {}", fmt::join(names, ", ")));
    }
  }
  [[nodiscard]] std::string text() const {
    if (json == nullptr) return {};
    if (!json->is_string()) refuse("expected a text");
    return json->get<std::string>();
  }
  [[nodiscard]] bool is_empty() const { return json == nullptr || json->empty() || *json == false; }

  bool is_file = false;
};

/// Python's levels, by name or by number. NOTSET gives no level.
std::optional<LogLevel> level_of(const Member& member) {
  if (member.json == nullptr) return std::nullopt;
  if (member.json->is_number_integer()) {
    const auto number = member.json->get<int64_t>();
    if (number <= 0) return std::nullopt;
    return number <= 10   ? LogLevel::debug
           : number <= 20 ? LogLevel::info
           : number <= 30 ? LogLevel::warning
                          : LogLevel::error;
  }
  const std::string text = member.text();
  if (text == "NOTSET") return std::nullopt;
  try {
    return parse_log_level(text);
  } catch (const InvalidArgument& error) {
    member.refuse(error.what());
  }
}

std::optional<LogLevel> more_severe(std::optional<LogLevel> a, std::optional<LogLevel> b) {
  if (a && b) return std::max(*a, *b);
  return a ? a : b;
}

LogForm form_of(const Member& formatter) {
  formatter.allow(kFormatterMembers);
  const Member by_class = formatter["class"];
  const Member by_factory = formatter["()"];
  const Member& type = by_class.json != nullptr ? by_class : by_factory;
  const std::string name = type.text();
  const bool is_json = name.ends_with("JsonFormatter");
  if (!is_json && !name.empty() && !contains(kPlainClasses, name)) {
    type.refuse(
        fmt::format("'{}' is Python code, which is not run here; use logging.Formatter or "
                    "pythonjsonlogger.json.JsonFormatter",
                    name));
  }
  for (const char* key : {"format", "fmt"}) {
    const Member format = formatter[key];
    if (format.json == nullptr || (!is_json && contains(kPlainFormats, format.text()))) continue;
    format.refuse("lines have a fixed form, in text and in JSON; leave this member out");
  }
  const Member time = formatter["datefmt"];
  if (time.json != nullptr && (is_json || time.text() != kPlainTime)) {
    time.refuse(
        fmt::format("times have a fixed form ({} in text, RFC 3339 in JSON); leave this "
                    "member out",
                    kPlainTime));
  }
  return is_json ? LogForm::json : LogForm::text;
}

void read_target(const Member& handler, LogConfig& config) {
  const Member type = handler["class"];
  const std::string name = type.text();
  if (name == "logging.StreamHandler") {
    const std::string stream = handler["stream"].text();
    if (stream == "ext://sys.stdout") {
      config.target = LogConfig::Target::standard_output;
    } else if (!stream.empty() && stream != "ext://sys.stderr") {
      handler["stream"].refuse(
          fmt::format("'{}' is not ext://sys.stderr or ext://sys.stdout", stream));
    }
  } else if (name == "logging.FileHandler") {
    config.target = LogConfig::Target::file;
    config.file = handler["filename"].text();
    if (config.file.empty()) handler["filename"].refuse("a FileHandler needs the name of a file");
    const std::string mode = handler["mode"].text();
    if (!mode.empty() && mode != "a" && mode != "w") handler["mode"].refuse("expected 'a' or 'w'");
    config.appends = mode != "w";
  } else {
    type.refuse(
        fmt::format("'{}' is not supported; use logging.StreamHandler or "
                    "logging.FileHandler, and let logrotate or the journal do the rest",
                    name));
  }
  const std::string encoding = handler["encoding"].text();
  if (!encoding.empty() && encoding != "utf-8" && encoding != "utf8") {
    handler["encoding"].refuse("logs are written in UTF-8");
  }
}

/// The loggers of the file; the root has the name "".
class Loggers {
 public:
  explicit Loggers(const Member& file) : file_(&file) {
    const Member loggers = file["loggers"];
    if (loggers.json == nullptr) return;
    if (!loggers.json->is_object()) loggers.refuse("expected an object");
    for (const auto& [name, value] : loggers.json->items()) {
      const bool is_known =
          contains(kOwnLoggers, name) || contains(kServerLoggers, name) || name == kAccessLogger;
      if (!is_known) {
        loggers[name].refuse(
            "no part of this program has this name; known loggers are vllm, "
            "reprise, uvicorn, uvicorn.error and uvicorn.access");
      }
    }
  }

  [[nodiscard]] Member logger(std::string_view name) const {
    Member root = (*file_)["root"];
    if (name.empty() && root.json != nullptr) return root;
    return (*file_)["loggers"][std::string(name)];
  }
  /// The level of the first of these loggers that has one.
  [[nodiscard]] std::optional<LogLevel> level(std::span<const std::string_view> names) const {
    for (const std::string_view name : names) {
      if (const auto level = level_of(logger(name)["level"])) return level;
    }
    return std::nullopt;
  }
  /// The only handler that any logger names; empty if no logger names one.
  [[nodiscard]] std::string handler() const {
    std::string first;
    for (const auto& names : {std::span<const std::string_view>(kOwnLoggers),
                              std::span<const std::string_view>(kServerLoggers),
                              std::span<const std::string_view>(&kAccessLogger, 1)}) {
      for (const std::string_view name : names) take_handlers(logger(name), first);
    }
    return first;
  }

 private:
  static void take_handlers(const Member& logger, std::string& first) {
    logger.allow(kLoggerMembers);
    const Member handlers = logger["handlers"];
    if (handlers.json == nullptr) return;
    if (!handlers.json->is_array()) handlers.refuse("expected a list");
    for (const Json& name : *handlers.json) {
      if (!name.is_string()) handlers.refuse("expected the names of handlers");
      if (first.empty()) first = name.get<std::string>();
      if (first != name.get<std::string>()) {
        handlers.refuse(
            fmt::format("'{}' is the second handler, after '{}'; only one handler is supported",
                        name.get<std::string>(),
                        first));
      }
    }
  }

  const Member* file_;
};

void refuse_what_has_no_counterpart(const Member& file) {
  file.allow(kTopMembers);
  const Member version = file["version"];
  if (version.json == nullptr || *version.json != 1) version.refuse("expected 1");
  if (!file["filters"].is_empty()) file["filters"].refuse("filters are not supported");
  if (!file["incremental"].is_empty()) file["incremental"].refuse("expected false");
}

}  // namespace

LogConfig read_log_config(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InvalidArgument(fmt::format("{}: cannot be read", path.string()));
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Json json = parse_json(text, path.string(), {.max_bytes = size_t{1} << 20});
  const Member file{.json = &json, .place = path.string(), .is_file = true};
  refuse_what_has_no_counterpart(file);
  const Loggers loggers(file);
  LogConfig config{.level = loggers.level(kOwnLoggers),
                   .server_level = loggers.level(kServerLoggers),
                   .access_level = loggers.level({&kAccessLogger, 1})};
  const std::string name = loggers.handler();
  if (name.empty()) return config;
  const Member handler = file["handlers"][name];
  if (handler.json == nullptr) handler.refuse("a logger names this handler, which is not here");
  handler.allow(kHandlerMembers);
  read_target(handler, config);
  const std::optional<LogLevel> least = level_of(handler["level"]);
  config.level = more_severe(config.level, least);
  config.server_level = more_severe(config.server_level, least);
  config.access_level = more_severe(config.access_level, least);
  const Member formatter_name = handler["formatter"];
  if (formatter_name.json == nullptr) return config;
  const Member formatter = file["formatters"][formatter_name.text()];
  if (formatter.json == nullptr)
    formatter.refuse("a handler names this formatter, which is not here");
  config.form = form_of(formatter);
  return config;
}

}  // namespace reprise::cli
