#include "reprise/cli/serve_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "reprise/base/error.h"
#include "reprise/base/line_writer.h"
#include "reprise/cli/log_config.h"
#include "reprise/cli/log_environment.h"
#include "reprise/server/server_options.h"

namespace reprise::cli {
namespace {

LogForm parse_log_form(std::string_view value) {
  if (value == "text") return LogForm::text;
  if (value == "json") return LogForm::json;
  throw InvalidArgument(fmt::format("--log-format: '{}' is not text or json", value));
}

std::FILE* open_target(const LogConfig& config) {
  switch (config.target) {
    case LogConfig::Target::standard_error:
      return stderr;
    case LogConfig::Target::standard_output:
      return stdout;
    case LogConfig::Target::file:
      break;
  }
  std::FILE* file = std::fopen(config.file.c_str(), config.appends ? "ae" : "we");
  if (file != nullptr) return file;
  throw InvalidArgument(fmt::format(
      "--log-config-file: {} cannot be opened: {}", config.file.string(), std::strerror(errno)));
}

/// A writer for the file. When lines were dropped, it reports their number in the form of the log.
std::shared_ptr<LineWriter> make_writer(std::FILE* file, const LogOptions& options) {
  constexpr size_t kMaxWaitingBytes = size_t{1} << 20;
  return std::make_shared<LineWriter>(
      ::fileno(file), kMaxWaitingBytes, [options](uint64_t num_lines) {
        return format_log_line(
            options,
            LogLevel::warning,
            "line_writer",
            fmt::format("{} lines of this log were dropped, because it was not read.", num_lines),
            {{"dropped_lines", num_lines}});
      });
}

void add_form_and_level(OptionTable& table, LogSwitches& log) {
  table.add({.name = "log-format",
             .group = kServer,
             .value_name = "FORM",
             .help = "text, or json: each line is one object, and no progress bars are drawn.",
             .default_text = "that of --log-config-file, else text",
             .apply =
                 [&log](std::string_view value) {
                   log.form = parse_log_form(value);
                   set_message_form(*log.form);
                 },
             .choices = {"text", "json"},
             .comes_first = true});
  table.add({.name = "log-level",
             .group = kServer,
             .value_name = "LEVEL",
             .help = "Least level of the log, before VLLM_LOGGING_LEVEL: DEBUG, INFO, WARNING or "
                     "ERROR.",
             .default_text = "INFO",
             .apply =
                 [](std::string_view value) {
                   try {
                     set_log_level(value == "NOTSET" ? LogLevel::debug : parse_log_level(value));
                   } catch (const InvalidArgument& error) {
                     throw InvalidArgument(fmt::format("--log-level: {}", error.what()));
                   }
                 },
             .choices = {"CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET"},
             .comes_first = true});
}

}  // namespace

void add_log_options(OptionTable& table, server::ServerOptions& server, LogSwitches& log) {
  add_form_and_level(table, log);
  table.add_text("log-config-file",
                 kServer,
                 "FILE",
                 "JSON of Python's logging.config: the form, the target and the levels of the log.",
                 log.config_file);
  table.add({.name = "uvicorn-log-level",
             .group = kServer,
             .value_name = "LEVEL",
             .help = "Least level of the lines about the server and its answers.",
             .default_text = "info",
             .apply =
                 [&log](std::string_view value) {
                   try {
                     log.server_level = value == "trace" ? LogLevel::debug : parse_log_level(value);
                   } catch (const InvalidArgument& error) {
                     throw InvalidArgument(fmt::format("--uvicorn-log-level: {}", error.what()));
                   }
                 },
             .choices = {"critical", "error", "warning", "info", "debug", "trace"}});
  table.add_switch(
      "disable-log-stats", kServer, "No periodic line about throughput.", log.disable_stats);
  table.add_switch("cudagraph-metrics",
                   kServer,
                   "After the line about throughput, log a table of the batches that ran: tokens, "
                   "padding, graph.",
                   server.cudagraph_metrics);
  table.add_switch(
      "enable-log-requests",
      kServer,
      "Log the parameters of each request; its text only with VLLM_LOGGING_LEVEL=DEBUG.",
      server.generations.request_log.is_enabled);
  table.add_switch("enable-log-outputs",
                   kServer,
                   "Log the text of each answer when it ends; needs --enable-log-requests.",
                   server.generations.request_log.with_outputs);
  table.add({.name = "max-log-len",
             .group = kServer,
             .value_name = "N",
             .help = "Characters, or token ids, of a logged prompt or answer.",
             .default_text = "all",
             .apply = [&server](std::string_view value) {
               server.generations.request_log.max_log_len =
                   parse_human_integer("--max-log-len", value);
               if (server.generations.request_log.max_log_len < 0)
                 throw InvalidArgument("--max-log-len: must be 0 or more");
             }});
}

Log ServeLog::startup(bool quiet) const {
  LogOptions options = own;
  if (quiet) options.least = std::max(options.least, LogLevel::warning);
  return Log(options, file);
}

ServeLog open_serve_log(const LogSwitches& switches, server::ServerOptions& server) {
  LogConfig config;
  if (!switches.config_file.empty()) config = read_log_config(switches.config_file);
  ServeLog log{.own = log_options_of_environment(false), .file = open_target(config)};
  log.own.form = switches.form.value_or(config.form.value_or(LogForm::text));
  set_message_form(log.own.form);
  if (log.file != stderr) log.own.has_colors = false;
  log.server = log.own;
  log.own.least = config.level.value_or(log.own.least);
  log.server.least = std::max(switches.server_level, config.server_level.value_or(LogLevel::debug));
  if (config.access_level > LogLevel::info) server.access_log = false;
  server.lines = make_writer(log.file, log.own);
  server.log = Log(log.server, server.lines);
  server.generations.log = Log(log.own, server.lines);
  return log;
}

}  // namespace reprise::cli
