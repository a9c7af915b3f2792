#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/log.h"
#include "reprise/server/http/cors.h"
#include "reprise/server/http/http_server.h"
#include "reprise/server/openai/answer_reader.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/request_policy.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Of /start_profile.
struct ProfilerOptions {
  std::filesystem::path folder;  // for traces; empty: there is no profiling
  engine::StepProfilerOptions steps;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: the system chooses
  ServedModelOptions model;
  std::string version;
  std::vector<std::string> api_keys;  // empty: everyone may ask
  bool allow_unauthenticated = false;
  GenerationServiceOptions generations;
  int shutdown_timeout_seconds = 30;        // for running requests after SIGTERM
  bool keep_alive_on_engine_death = false;  // answer 503 for ever instead of ending
  AnswerReaderOptions answers;
  RequestPolicy requests;   // but their sampling parameters, which the engine recommends
  std::string unix_socket;  // path; else host and port
  CorsOptions cors;
  bool dev_mode = false;  // more routes: of the engine's insides, and such that change it
  bool enable_request_id_headers = false;  // on every answer; those to generations always have one
  bool access_log = true;
  std::vector<std::string> unlogged_paths;
  HttpOptions http;
  int log_stats_interval_seconds = 10;  // of the line about throughput; 0: none
  bool cudagraph_metrics = false;       // a table of graphs after that line
  ProfilerOptions profiler;
};

/// \throws InvalidArgument when the options would open the server to other machines without a key
void check_exposure(const ServerOptions& options);

}  // namespace reprise::server
