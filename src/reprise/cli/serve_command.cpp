#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "reprise/api/async_engine.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/version.h"
#include "reprise/server/access.h"
#include "reprise/server/api_server.h"

namespace reprise::cli {
namespace {

constexpr const char* kServer = "Server";

uint16_t parse_port(std::string_view text) {
  const int64_t port = parse_human_integer("--port", text);
  if (port < 0 || port > 65535) {
    throw InvalidArgument(fmt::format("--port: {} is not in 0..65535; 0 takes a free one", port));
  }
  return static_cast<uint16_t>(port);
}

void add_key(std::vector<std::string>& keys, std::string_view from, std::string_view key) {
  const bool is_visible =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c < 127; });
  if (key.empty() || !is_visible) {
    throw InvalidArgument(fmt::format("{}: a key is one or more visible ASCII characters", from));
  }
  keys.emplace_back(key);
}

struct LogOptions {
  bool disable_stats = false;
};

OptionTable make_table(api::EngineArgs& engine,
                       server::ServerOptions& server,
                       LogOptions& log,
                       bool& verbose) {
  OptionTable table(
      "reprise serve MODEL [options]",
      "Loads a model folder and answers the OpenAI API over HTTP, as vLLM serves it.");
  table.add_text("host",
                 kServer,
                 "ADDRESS",
                 "Where to listen; beyond this machine only with a key.",
                 server.host);
  table.add({.name = "port",
             .group = kServer,
             .value_name = "N",
             .help = "Port; 0 takes a free one and prints it.",
             .default_text = "8000",
             .apply = [&server](std::string_view value) { server.port = parse_port(value); }});
  table.add({.name = "served-model-name",
             .group = kServer,
             .value_name = "NAME",
             .help = "Name of the model in requests; repeated: aliases.",
             .default_text = "the path as given",
             .apply = [&server](std::string_view value) {
               if (value.empty()) throw InvalidArgument("--served-model-name: needs a name");
               server.served_model_names.emplace_back(value);
             }});
  table.add({.name = "api-key",
             .group = kServer,
             .value_name = "KEY",
             .help =
                 "Key that clients must send; may be repeated. Others can see it in the list of "
                 "processes: VLLM_API_KEY is safer.",
             .apply = [&server](std::string_view value) {
               add_key(server.api_keys, "--api-key", value);
             }});
  table.add_switch("allow-unauthenticated",
                   kServer,
                   "Listen beyond this machine without a key.",
                   server.allow_unauthenticated);
  table.add_integer("max-waiting-requests",
                    kServer,
                    "Requests that may wait beyond --max-num-seqs; more get 429.",
                    server.max_waiting_requests);
  table.add_switch("enable-prompt-tokens-details",
                   kServer,
                   "Say in `usage` how many tokens of a prompt were cached.",
                   server.enable_prompt_tokens_details);
  table.add_integer("shutdown-timeout",
                    kServer,
                    "Seconds that running requests have after SIGTERM.",
                    server.shutdown_timeout_seconds);
  table.add_switch("disable-log-stats",
                   kServer,
                   "No periodic line about throughput.",
                   log.disable_stats);
  table.add_switch("enable-log-requests",
                   kServer,
                   "Log the parameters of each request; its text only with VLLM_LOGGING_LEVEL=DEBUG.",
                   server.request_log.is_enabled);
  table.add({.name = "max-log-len",
             .group = kServer,
             .value_name = "N",
             .help = "Characters, or token ids, of a logged prompt.",
             .default_text = "all",
             .apply = [&server](std::string_view value) {
               server.request_log.max_log_len = parse_human_integer("--max-log-len", value);
               if (server.request_log.max_log_len < 0)
                 throw InvalidArgument("--max-log-len: must be 0 or more");
             }});
  table.add_switch("verbose", kServer, "Say more about start-up.", verbose);
  add_engine_options(table, engine);
  return table;
}

void read_environment(std::vector<std::string>& keys) {
  if (const char* key = std::getenv("REPRISE_API_KEY")) add_key(keys, "REPRISE_API_KEY", key);
  if (const char* key = std::getenv("VLLM_API_KEY")) add_key(keys, "VLLM_API_KEY", key);
}

void read_log_environment(server::ServerOptions& options) {
  if (const char* level = std::getenv("VLLM_LOGGING_LEVEL")) {
    options.request_log.with_prompts = std::string_view(level) == "DEBUG";
  }
  if (const char* text = std::getenv("VLLM_LOG_STATS_INTERVAL")) {
    const int64_t seconds = parse_human_integer("VLLM_LOG_STATS_INTERVAL", text);
    if (seconds < 1 || seconds > 86400)
      throw InvalidArgument("VLLM_LOG_STATS_INTERVAL: seconds from 1 to 86400");
    options.log_stats_interval_seconds = static_cast<int>(seconds);
  }
}

void print_startup(const api::StartupReport& report) {
  for (const std::string& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
  fmt::print(
      stderr,
      "{:.1f} M parameters ({}, {}) on {}; kernels: {}\n"
      "cudagraph_mode {}; graph capturing finished in {:.3f} s; KV cache {} blocks of {} tokens, "
      "max_model_len {}; ready in {:.3f} s\n",
      static_cast<double>(report.num_parameters) / 1e6,
      report.dtype,
      format_bytes(report.weight_bytes),
      report.device,
      report.cpu_isa,
      to_string(report.resolved.mode),
      report.capture.seconds,
      report.num_kv_blocks,
      report.kv_block_size,
      report.max_model_len,
      report.total_seconds);
}

}  // namespace

int run_serve(std::span<const std::string> arguments) {
  api::EngineArgs engine_args;
  server::ServerOptions options;
  LogOptions log;
  bool verbose = false;
  const OptionTable table = make_table(engine_args, options, log, verbose);
  if (!parse_model_command(table, arguments, "serve", engine_args.model)) return 0;
  read_environment(options.api_keys);
  if (options.max_waiting_requests < 0)
    throw InvalidArgument("--max-waiting-requests: must be 0 or more");
  if (options.shutdown_timeout_seconds < 0)
    throw InvalidArgument("--shutdown-timeout: must be 0 or more");
  read_log_environment(options);
  if (log.disable_stats) options.log_stats_interval_seconds = 0;
  server::check_exposure(options);  // before the model is loaded

  options.model_path = options.model_root = engine_args.model.string();
  if (options.served_model_names.empty()) options.served_model_names.push_back(options.model_root);
  // A name that was given also hides where the model lies.
  options.model_root = options.served_model_names[0];
  options.version = kVersion;
  options.max_num_seqs = engine_args.max_num_seqs;

  fmt::print(stderr, "INFO:     Started server process [{}]\n", getpid());
  StartupProgress progress(verbose);
  api::AsyncEngine engine(engine_args, progress.observer());
  print_startup(engine.startup_report());
  server::ApiServer server(options, engine);
  const bool is_v6 = options.host.find(':') != std::string::npos;
  fmt::print(stderr,
             "INFO:     Starting Reprise API server on http://{}{}{}:{}\n"
             "INFO:     Application startup complete.\n",
             is_v6 ? "[" : "",
             options.host,
             is_v6 ? "]" : "",
             server.port());
  server.run();
  fmt::print(stderr, "INFO:     Application shutdown complete.\n");
  return 0;
}

}  // namespace reprise::cli
