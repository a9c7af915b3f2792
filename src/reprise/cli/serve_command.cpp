#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "reprise/api/async_engine.h"
#include "reprise/base/error.h"
#include "reprise/base/log.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/config_reload.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/exit_deadline.h"
#include "reprise/cli/graph_profile_page.h"
#include "reprise/cli/http_options.h"
#include "reprise/cli/kv_events_config.h"
#include "reprise/cli/kv_transfer_config.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/otlp_options.h"
#include "reprise/cli/profiler_config.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/rank_session.h"
#include "reprise/cli/serve_log.h"
#include "reprise/cli/service_manager.h"
#include "reprise/cli/startup_log.h"
#include "reprise/cli/structured_options.h"
#include "reprise/cli/version.h"
#include "reprise/cli/vllm_flags.h"
#include "reprise/output_parsers/choose_parsers.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"
#include "reprise/server/api_server.h"
#include "reprise/server/http/access.h"

namespace reprise::cli {
namespace {

// After the last answer, the process has this time to release what it holds.
constexpr std::chrono::seconds kTimeToRelease{1};
// No proxy waits for a day.
constexpr int64_t kMaxKeepAliveSeconds = 86400;

/// "auto" and the names of the parsers.
std::vector<std::string> as_choices(const std::vector<std::string_view>& names) {
  std::vector<std::string> choices = {std::string(server::kParserByTemplate)};
  choices.insert(choices.end(), names.begin(), names.end());
  return choices;
}

void add_answer_options(OptionTable& table, server::AnswerReaderOptions& answers) {
  table.add_switch(
      "enable-auto-tool-choice",
      kServer,
      "Let the model decide whether it calls a tool, in the form of --tool-call-parser.",
      "on if the chat template shows the form",
      answers.enable_auto_tool_choice);
  table.add(
      {.name = "tool-call-parser",
       .group = kServer,
       .value_name = "NAME",
       .help = fmt::format("How the model writes calls: auto (as its chat template shows), {}.",
                           fmt::join(output_parsers::tool_parser_names(), ", ")),
       .default_text = "auto; none with --no-enable-auto-tool-choice",
       .apply =
           [&answers](std::string_view value) {
             if (value != server::kParserByTemplate)
               (void)output_parsers::create_tool_parser(value);
             answers.tool_call_parser = value;
           },
       .choices = as_choices(output_parsers::tool_parser_names())});
  table.add({.name = "reasoning-parser",
             .group = kServer,
             .value_name = "NAME",
             .help = fmt::format(
                 "How the model marks its reasoning: auto (as its chat template shows), {}.",
                 fmt::join(output_parsers::reasoning_parser_names(), ", ")),
             .apply = [&answers](std::string_view value) { set_reasoning_parser(answers, value); },
             .choices = as_choices(output_parsers::reasoning_parser_names())});
}

void add_request_options(OptionTable& table, server::RequestPolicy& requests) {
  table.add_object("default-chat-template-kwargs",
                   kServer,
                   "Variables of the chat template; those of a request win.",
                   requests.default_chat_template_kwargs);
  table.add_switch("trust-request-chat-template",
                   kServer,
                   "Let requests bring a chat template; it runs in a sandbox.",
                   requests.trust_request_chat_template);
  table.add_text("response-role",
                 kServer,
                 "NAME",
                 "Role in the messages of chat answers.",
                 requests.response_role);
  table.add_switch("exclude-tools-when-tool-choice-none",
                   kServer,
                   "Leave tools out of the prompt when none may be called.",
                   requests.exclude_tools_when_tool_choice_none);
  table.add_switch("enable-force-include-usage",
                   kServer,
                   "End every stream with usage, even if the request does not ask for it.",
                   requests.enable_force_include_usage);
  table.add({.name = "stream-interval",
             .group = kServer,
             .value_name = "N",
             .help = "Tokens of a chunk of a stream, except for the first and the last one.",
             .default_text = "1",
             .apply = [&requests](std::string_view value) {
               constexpr int64_t kMostTokens = 1 << 20;
               const int64_t number = parse_human_integer("--stream-interval", value);
               if (number < 1 || number > kMostTokens) {
                 throw InvalidArgument(
                     fmt::format("--stream-interval: {} is not in 1..{}", number, kMostTokens));
               }
               requests.stream_interval = static_cast<int32_t>(number);
             }});
  table.add_switch("return-tokens-as-token-ids",
                   kServer,
                   "Write tokens in log-probabilities as token_id:N, if requests do not choose.",
                   requests.return_tokens_as_token_ids);
}

void add_queue_limits(OptionTable& table, server::GenerationServiceOptions& generations) {
  table.add_integer("max-waiting-requests",
                    kServer,
                    "Requests that may wait beyond --max-num-seqs; more get 429.",
                    generations.max_waiting_requests);
  struct Limit {
    std::string name;
    std::string help;
    std::string default_text;
    std::optional<int64_t>& most;
  };
  for (const Limit& limit :
       {Limit{"max-num-queued-reqs",
              "Requests that may run or wait; more get 503, as from vLLM, so that a balancer asks "
              "another server.",
              "only --max-waiting-requests limits",
              generations.max_num_queued_reqs},
        Limit{
            "max-num-queued-tokens",
            "Tokens of prompts that may wait or be computed; then requests get 503, so that those "
            "admitted get their first token in time.",
            "no limit",
            generations.max_num_queued_tokens}}) {
    table.add({.name = limit.name,
               .group = kServer,
               .value_name = "N",
               .help = limit.help,
               .default_text = limit.default_text,
               .apply = [flag = "--" + limit.name, &most = limit.most](std::string_view value) {
                 most = parse_human_integer(flag, value);
                 if (*most < 0) throw InvalidArgument(flag + ": must be 0 or more");
               }});
  }
}

void add_sse_keep_alive(OptionTable& table, server::GenerationServiceOptions& generations) {
  table.add({.name = "sse-keep-alive-interval",
             .group = kServer,
             .value_name = "N",
             .help =
                 "After so many seconds of silence a stream gets a comment, so that proxies do not "
                 "close it; 0: never.",
             .default_text = "0",
             .apply = [&generations](std::string_view value) {
               const int64_t interval = parse_human_integer("--sse-keep-alive-interval", value);
               if (interval < 0 || interval > kMaxKeepAliveSeconds) {
                 throw InvalidArgument(
                     fmt::format("--sse-keep-alive-interval: must be 0 to {} seconds, not {}",
                                 kMaxKeepAliveSeconds,
                                 interval));
               }
               generations.sse_keep_alive_interval = static_cast<int32_t>(interval);
             }});
}

OptionTable make_table(api::EngineArgs& engine,
                       server::ServerOptions& server,
                       LogSwitches& log,
                       OtlpOptions& traces) {
  OptionTable table(
      "reprise serve MODEL [options]",
      "Loads a model folder and answers the OpenAI API over HTTP, as vLLM serves it.");
  add_http_options(table, server);
  table.add({.name = "served-model-name",
             .group = kServer,
             .value_name = "NAME",
             .help = "Name of the model in requests; repeated: aliases.",
             .default_text = "the path as given",
             .apply =
                 [&server](std::string_view value) {
                   if (value.empty()) throw InvalidArgument("--served-model-name: needs a name");
                   server.model.names.emplace_back(value);
                 },
             .takes_several = true});
  add_queue_limits(table, server.generations);
  add_sse_keep_alive(table, server.generations);
  table.add_switch("enable-prompt-tokens-details",
                   kServer,
                   "Say in `usage` how many tokens of a prompt were cached.",
                   server.generations.enable_prompt_tokens_details);
  add_request_options(table, server.requests);
  table.add_integer("shutdown-timeout",
                    kServer,
                    "Seconds that running requests may take after SIGTERM.",
                    server.shutdown_timeout_seconds);
  add_log_options(table, server, log);
  add_otlp_options(table, traces);
  add_answer_options(table, server.answers);
  add_structured_options(table, server);
  add_profiler_config(table, server.profiler);
  table.add_switch("verbose", kServer, "Say more about start-up.", log.verbose);
  table.add_switch(
      "quiet",
      kServer,
      "During the start print only warnings, and the address when the server is ready.",
      log.quiet);
  add_engine_options(table, engine);
  add_kv_events_config(table, engine.kv_events);
  add_kv_transfer_config(table, engine.kv_transfer);
  add_vllm_flags(table);  // after all options of this program
  return table;
}

/// Reads the configuration of a running server again, from its sources as they are now.
ReadConfiguration read_again(const std::vector<std::string>& arguments) {
  ReadConfiguration read;
  server::ServerOptions server;
  LogSwitches log;
  OtlpOptions traces;
  const OptionTable table = make_table(read.engine, server, log, traces);
  const std::optional<Configuration> configuration =
      configure_model_command(table, arguments, "serve", read.engine.model);
  if (configuration) read.options = Json::parse(configuration->to_line());
  return read;
}

/// Sets the functions with which a running server shows and changes its graphs. With a --config
/// file, SIGHUP reads the configuration again instead of ending the server.
void set_graph_changes(server::ServerOptions& options,
                       std::span<const std::string> given,
                       const Configuration& configuration,
                       const api::EngineArgs& engine) {
  options.graph_pages = {.list = live_graphs_page, .profile = [](const Json& profile) {
                           return profile_page(runner::profile_from_json(profile, "profile"));
                         }};
  if (configuration.file().empty()) return;
  ReadConfiguration now{.options = Json::parse(configuration.to_line()), .engine = engine};
  const std::vector<std::string> arguments(given.begin(), given.end());
  const auto reload =
      std::make_shared<ConfigReload>(std::move(now), [arguments] { return read_again(arguments); });
  options.reload_config = [reload] { return reload->read(); };
}

/// Also connects the engine's messages with the server's log.
void read_serve_environment(server::ServerOptions& options,
                            api::EngineArgs& engine,
                            LogLevel level) {
  engine.log_line = [&options](std::string_view line) { options.generations.log.warning(line); };
  engine.note_line = [&options](std::string_view line) { options.generations.log.info(line); };
  read_kv_events_environment(engine.kv_events);
  read_kv_transfer_environment(engine.kv_transfer);
  options.keep_alive_on_engine_death =
      look_up_process_environment("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH") == "1";
  const std::string lora_updating =
      look_up_process_environment("VLLM_ALLOW_RUNTIME_LORA_UPDATING").value_or("");
  options.allow_runtime_lora_updating =
      lora_updating == "1" || lora_updating == "true" || lora_updating == "True";
  options.generations.request_log.with_prompts = level == LogLevel::debug;
  if (const char* text = std::getenv("VLLM_LOG_STATS_INTERVAL")) {
    const int64_t seconds = parse_human_integer("VLLM_LOG_STATS_INTERVAL", text);
    if (seconds < 1 || seconds > 86400)
      throw InvalidArgument("VLLM_LOG_STATS_INTERVAL: seconds from 1 to 86400");
    options.log_stats_interval_seconds = static_cast<int>(seconds);
  }
}

std::string url_of(const server::ServerOptions& options, uint16_t port) {
  if (!options.unix_socket.empty()) return "unix socket " + options.unix_socket;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}",
                     options.http.tls.is_set() ? "https" : "http",
                     is_v6 ? "[" : "",
                     options.host,
                     is_v6 ? "]" : "",
                     port);
}

/// Raises the limit on open files, because each connection needs one. The usual soft limit of 1024
/// is far below the system's hard limit.
void raise_file_limit(size_t num_connections) {
  constexpr rlim_t kOtherFiles = 256;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(num_connections) + kOtherFiles;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    print_log(LogLevel::warning,
              "warning: {} open files are allowed (ulimit -Hn), which is too few for "
              "--max-connections {}\n",
              limit.rlim_cur,
              num_connections);
  }
}

/// Makes the C library give memory of large requests and answers back soon. Otherwise the library
/// adapts its threshold to such sizes, and keeps up to 64 MiB for each thread.
void return_freed_memory_soon() {
#if defined(M_MMAP_THRESHOLD) && defined(M_TRIM_THRESHOLD)
  constexpr int kMib = 1 << 20;
  (void)mallopt(M_MMAP_THRESHOLD, kMib);
  (void)mallopt(M_TRIM_THRESHOLD, 8 * kMib);
#endif
}

int exit_code_of(server::ServerEnd end) { return end == server::ServerEnd::signal ? 0 : 1; }

}  // namespace

OptionTable serve_options() {
  api::EngineArgs engine;
  server::ServerOptions server;
  LogSwitches log;
  OtlpOptions traces;
  return make_table(engine, server, log, traces);
}

namespace {

void check_options(const server::ServerOptions& options) {
  if (options.generations.max_waiting_requests < 0)
    throw InvalidArgument("--max-waiting-requests: must be 0 or more");
  if (options.shutdown_timeout_seconds < 0)
    throw InvalidArgument("--shutdown-timeout: must be 0 or more");
  if (options.generations.request_log.with_outputs && !options.generations.request_log.is_enabled)
    throw InvalidArgument("--enable-log-outputs: needs --enable-log-requests");
  if (options.http.tls.refreshes && !options.http.tls.is_set())
    throw InvalidArgument("--enable-ssl-refresh: needs --ssl-certfile and --ssl-keyfile");
}

}  // namespace

int run_serve(std::span<const std::string> arguments) {
  api::EngineArgs engine_args;
  server::ServerOptions options;
  LogSwitches switches;
  OtlpOptions traces;
  const OptionTable table = make_table(engine_args, options, switches, traces);
  const std::optional<Configuration> configuration =
      configure_model_command(table, arguments, "serve", engine_args.model);
  if (!configuration) return 0;
  set_graph_changes(options, arguments, *configuration, engine_args);
  const ServeLog logs = open_serve_log(switches, options);
  const Log log = logs.startup(switches.quiet);
  check_options(options);
  read_serve_environment(options, engine_args, logs.own.least);
  check_kv_transfer_config(engine_args.kv_transfer);
  options.generations.tracer = make_tracer(traces, options.generations.log);
  if (switches.disable_stats) options.log_stats_interval_seconds = 0;
  server::check_exposure(options);  // checked before the model is loaded

  options.model.path = options.model.root = engine_args.model.string();
  if (options.model.names.empty()) options.model.names.push_back(options.model.root);
  options.version = kVersion;
  options.generations.max_num_seqs = engine_args.max_num_seqs;

  RankSession ranks(engine_args);
  if (ranks.is_elsewhere()) return ranks.run(engine_args);
  server::check_listening(options);  // checked now, because loading a model may take minutes
  const Log server_log(logs.server, logs.file);
  server_log.info(fmt::format("Started server process [{}]", getpid()));
  for (const std::string& name : unknown_variables(process_environment_names())) {
    log.warning(fmt::format("{} is set and means nothing here", name));
  }
  log.info("non-default args: " + configuration->to_line());
  log.info(fmt::format("Starting to load model {}...", engine_args.model.string()));
  StartupProgress progress(switches.verbose);
  const bool shows_progress = !switches.quiet && logs.own.form == LogForm::text;
  api::AsyncEngine engine(engine_args,
                          shows_progress ? progress.observer() : api::StartupObserver{});
  log_startup(log, engine.startup_report(), options.model.names[0]);
  std::vector<std::string> notes;
  options.answers = server::resolve_parsers(
      options.answers, output_parsers::choose_parsers(engine.chat_template_samples()), notes);
  for (const std::string& note : notes) log.info(note);
  return_freed_memory_soon();
  raise_file_limit(options.http.limits.max_connections);
  options.on_ending = [form = logs.server](server::ServerEnd reason, std::chrono::seconds time) {
    end_process_after(time + kTimeToRelease, exit_code_of(reason), form);
  };
  server::ApiServer server(options, engine);
  server_log.info(fmt::format("Starting Reprise API server on {}", url_of(options, server.port())));
  server_log.info("Application startup complete.");
  notify_service_manager("READY=1");
  const server::ServerEnd end = server.run();
  options.log.info("Application shutdown complete.");
  // A thread that waits for a collector may own the writer, whose destructor then does not run.
  (void)options.lines->flush(kTimeToRelease);
  return exit_code_of(end);
}

}  // namespace reprise::cli
