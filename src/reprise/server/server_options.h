#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/line_writer.h"
#include "reprise/base/log.h"
#include "reprise/server/config_reload.h"
#include "reprise/server/http/allowed_hosts.h"
#include "reprise/server/http/cors.h"
#include "reprise/server/http/http_server.h"
#include "reprise/server/openai/answer_reader.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// The options of /start_profile.
struct ProfilerOptions {
  std::filesystem::path folder;  // for traces; empty: profiling is off
  engine::StepProfilerOptions steps;
};

/// Functions that make the pages of graphs, because the server itself contains no HTML for them.
struct GraphPages {
  std::function<std::string(const Json& graphs)> list;      // of AsyncEngine::graphs()
  std::function<std::string(const Json& profile)> profile;  // of AsyncEngine::profile_graph()

  [[nodiscard]] bool are_served(bool dev_mode) const { return dev_mode && list && profile; }
};

/// Why a server ended.
enum class ServerEnd : uint8_t { signal, engine_death };

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: the system chooses
  ServedModelOptions model;
  std::string version;
  std::vector<std::string> api_keys;  // empty: no key is needed
  bool allow_unauthenticated = false;
  // names under which the server answers, besides addresses and localhost; see allowed_hosts()
  std::vector<std::string> allowed_hosts;
  GenerationServiceOptions generations;
  int shutdown_timeout_seconds = 30;        // for running requests after SIGTERM
  bool keep_alive_on_engine_death = false;  // answers 503 instead of ending the process
  AnswerReaderOptions answers;
  RequestPolicy requests;   // without sampling parameters, which the engine recommends
  std::string unix_socket;  // path; when set, it replaces host and port
  CorsOptions cors;
  /// Reads the configuration file again; called at SIGHUP, on a thread that may wait. Throws if the
  /// file cannot be used. Empty: the server was started without a file, and SIGHUP ends it.
  std::function<ReloadedConfig()> reload_config;
  GraphPages graph_pages;  // for development mode
  bool dev_mode = false;   // adds routes that show or change the engine's internal state
  bool allow_runtime_lora_updating = false;  // adds the routes that load and unload adapters
  // on every answer; answers of generation routes always have one
  bool enable_request_id_headers = false;
  /// The writer of the server's lines; the log of `generations` uses the same one. Null: the server
  /// makes a writer for standard error.
  std::shared_ptr<LineWriter> lines;
  /// The log of lines that in vLLM come from uvicorn: start and end of the server, and one for each
  /// request. Uses `lines`.
  Log log;
  bool access_log = true;
  std::vector<std::string> unlogged_paths = {"/health", "/metrics"};  // probes ask all the time
  HttpOptions http;
  int log_stats_interval_seconds = 10;  // interval of the throughput line; 0: no line
  bool cudagraph_metrics = false;       // adds a table of graphs after the throughput line
  ProfilerOptions profiler;
  /// Called on the I/O thread when the server begins to end, and again at a second signal. After
  /// `time` all answers have been sent, and only work whose result is not wanted may still run.
  std::function<void(ServerEnd reason, std::chrono::seconds time)> on_ending;
};

/// \throws InvalidArgument when the options would open the server to other machines without a key
void check_exposure(const ServerOptions& options);

/// Reads the TLS files and takes the address for a moment, so that a mistake is found before a
/// model is loaded. \throws InvalidArgument as ApiServer would
void check_listening(const ServerOptions& options);

/// The host names that the server accepts. A server that listens only on this machine, or has a
/// list, checks them. A server with keys need not check names, because a page of another site does
/// not have the key. A server that other machines can reach cannot check them, because the names of
/// its proxies and services are unknown.
[[nodiscard]] AllowedHosts allowed_hosts(const ServerOptions& options);

}  // namespace reprise::server
