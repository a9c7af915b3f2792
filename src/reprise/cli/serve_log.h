#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "reprise/base/log.h"
#include "reprise/cli/option_table.h"

namespace reprise::server {
struct ServerOptions;
}

namespace reprise::cli {

/// The options of `serve` about its log.
struct LogSwitches {
  bool verbose = false;
  bool quiet = false;
  bool disable_stats = false;
  std::optional<LogForm> form;
  LogLevel server_level = LogLevel::info;  // --uvicorn-log-level
  std::string config_file;
};

/// \pre both targets outlive the table
void add_log_options(OptionTable& table, server::ServerOptions& server, LogSwitches& log);

/// The logs of a server.
struct ServeLog {
  LogOptions own;            // of the engine and its requests
  LogOptions server;         // of the HTTP server
  std::FILE* file = stderr;  // never closed: the log lives as long as the process

  /// A log that writes at once, for the start; if `quiet` is set, only warnings and errors.
  [[nodiscard]] Log startup(bool quiet) const;
};

/// Combines the options, the environment and --log-config-file, and sets the log options of
/// `server`, whose lines never keep a request waiting. \throws InvalidArgument
[[nodiscard]] ServeLog open_serve_log(const LogSwitches& switches, server::ServerOptions& server);

}  // namespace reprise::cli
