#include "reprise/server/api_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "reprise/server/dev_routes.h"
#include "reprise/server/dialects/anthropic_routes.h"
#include "reprise/server/dialects/dialect_schemas.h"
#include "reprise/server/dialects/ollama_routes.h"
#include "reprise/server/dialects/responses_routes.h"
#include "reprise/server/graph_routes.h"
#include "reprise/server/http/access.h"
#include "reprise/server/http/access_log.h"
#include "reprise/server/http/allowed_hosts.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/http/http_meter.h"
#include "reprise/server/http/reshaped_errors.h"
#include "reprise/server/http/router.h"
#include "reprise/server/http/unused_fields.h"
#include "reprise/server/http/worker.h"
#include "reprise/server/info_routes.h"
#include "reprise/server/live_routes.h"
#include "reprise/server/lora_routes.h"
#include "reprise/server/metrics/cudagraph_log.h"
#include "reprise/server/metrics/speculation_log.h"
#include "reprise/server/metrics/throughput_log.h"
#include "reprise/server/openai/api_schemas.h"
#include "reprise/server/openai/generation_routes.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/model_routes.h"
#include "reprise/server/openai/openapi.h"
#include "reprise/server/openai/pooling_routes.h"
#include "reprise/server/openai/prompt_encoder.h"
#include "reprise/server/openai/served_model.h"
#include "reprise/server/openai/tokenizer_routes.h"
#include "reprise/server/page_routes.h"
#include "reprise/server/profile_routes.h"
#include "reprise/server/sleep_routes.h"

namespace reprise::server {
namespace {

// After the last answer of a drain is written, the server waits for slow clients: as long as the
// drain may take, within these bounds.
constexpr int kMinFlushSeconds = 1;
constexpr int kMaxFlushSeconds = 5;
// A large request that has not been read after this time is refused. The time includes the wait for
// other large requests, so it also bounds their queue.
constexpr std::chrono::seconds kPrepareTime{30};

// On busy processors, streams continue at full speed, while large requests and large answers have
// to wait.
constexpr int kNicenessOfReaders = 5;
constexpr int kNicenessOfWriters = 5;

// The interval at which a server checks whether it is idle. It gives memory back twice after its
// last request, because clients may still be reading large answers the first time.
constexpr int kIdleSeconds = 3;
constexpr int kTrimsAfterWork = 2;

// One slow request must not hold up all other large ones, and the engine needs the other cores.
int num_readers() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 4, 2, 4);
}

}  // namespace

struct ApiServer::Impl {
  Impl(const ServerOptions& options, api::AsyncEngine& engine);

  HeadCheck check_head(const HttpRequest& request);
  HttpHeaders headers(const HttpRequest& request);
  HttpResponse refuse(const HttpRequest& request, std::string_view handler, HttpResponse response);
  void handle(HttpRequest request, const ExchangeRef& from_client);
  void prepare_on(Worker& thread, const Route& route, HttpRequest request, ExchangeRef exchange);
  void answer(const Answering& answering, const ExchangeRef& exchange);
  void log_throughput(api::AsyncEngine& engine, int interval_seconds);
  void log_graphs(api::AsyncEngine& engine);
  void keep_streams_alive();
  void give_memory_back();
  void on_engine_death(const std::string& reason);
  void on_signal();
  void on_tls_refresh(const std::string& problem) const;
  void reload_config(api::AsyncEngine& engine);
  void drain();
  void stop_now();
  void tell_ending(int drain_seconds);

  int shutdown_timeout_seconds;
  bool keep_alive_on_engine_death;
  ServerEnd end = ServerEnd::signal;
  std::function<ReloadedConfig()> read_config;
  std::function<void(ServerEnd, std::chrono::seconds)> on_ending;
  bool enable_request_id_headers;
  CorsOptions cors;
  std::shared_ptr<LineWriter> lines;
  Log log;
  Log server_log;
  UnusedFields unused_fields;
  AccessLog access_log;
  ApiKeys keys;
  AllowedHosts hosts;
  bool needs_key;
  ServedModel model;
  PromptEncoder prompts;
  Router router;
  HttpMeter meter;
  ThroughputLog throughput;
  SpeculationLog speculation;
  std::optional<CudagraphLog> graphs;  // used only by the thread that waits for the engine
  std::chrono::steady_clock::time_point throughput_at = std::chrono::steady_clock::now();
  HttpServer http;
  GenerationService generations;
  uint16_t port = 0;
  std::chrono::steady_clock::time_point drain_ends;
  int num_trims_left = 0;  // how often memory is still to be given back while the server is idle
  std::stop_source end_of_work;
  // The workers stay the last members: their tasks use the members above.
  Worker reader{num_readers(), kNicenessOfReaders};  // reads large bodies
  Worker waiting;                                    // waits for the engine
  Worker writer{1, kNicenessOfWriters};              // writes large answers
};

ApiServer::Impl::Impl(const ServerOptions& options, api::AsyncEngine& engine)
    : shutdown_timeout_seconds(options.shutdown_timeout_seconds),
      keep_alive_on_engine_death(options.keep_alive_on_engine_death),
      read_config(options.reload_config),
      on_ending(options.on_ending),
      enable_request_id_headers(options.enable_request_id_headers),
      cors(options.cors),
      lines(options.lines ? options.lines : std::make_shared<LineWriter>(STDERR_FILENO)),
      log(options.generations.log),
      server_log(options.log),
      unused_fields(log),
      access_log(server_log, options.access_log, options.unlogged_paths),
      keys(options.api_keys),
      hosts(allowed_hosts(options)),
      needs_key(!options.api_keys.empty()),
      model(options.model, engine.startup_report().max_model_len, engine.adapters()),
      prompts(engine),
      http(
          options.http,
          {.check_head = [this](const HttpRequest& request) { return check_head(request); },
           .handle = [this](HttpRequest request,
                            const ExchangeRef& exchange) { handle(std::move(request), exchange); },
           .headers = [this](const HttpRequest& request) { return headers(request); },
           .on_answer = [this](const AnsweredRequest& request) { access_log.write(request); },
           .on_signal = [this] { on_signal(); },
           .on_tls_refresh = [this](const std::string& problem) { on_tls_refresh(problem); },
           .on_hang_up =
               !options.reload_config
                   ? std::function<void()>()
                   : [this, &engine] { waiting.run([this, &engine] { reload_config(engine); }); }}),
      generations(
          options.generations,
          engine,
          model,
          [this](std::function<void()> task) { http.post(std::move(task)); },
          [this](const std::string& reason) { on_engine_death(reason); },
          [this](std::function<void()> task) { writer.run(std::move(task)); }) {
  check_exposure(options);
  if (options.cudagraph_metrics) {
    const config::ResolvedConfig& config = engine.startup_report().resolved;
    graphs.emplace(config.mode, config.capture_sizes.mixed);
  }
  add_info_routes(router, engine, generations, model, meter, *lines, options.version);
  add_model_routes(router, model);
  const auto generation = std::make_shared<TextGeneration>(
      engine, generations, model, prompts, options.answers, options.requests);
  add_generation_routes(router, generation);
  add_anthropic_routes(router, generation);
  add_responses_routes(router, generation);
  const auto pooling = std::make_shared<TextPooling>(engine, generations, model, prompts);
  add_ollama_routes(router, generation, pooling, options.version);
  add_pooling_routes(router, pooling);
  add_tokenizer_routes(
      router, engine, model, options.requests, options.generations.max_answer_bytes);
  // A browser that follows a link sends no key.
  const bool links_graphs = options.graph_pages.are_served(options.dev_mode) && !needs_key;
  add_live_routes(router, engine, model, links_graphs ? GraphsPage::served : GraphsPage::absent);
  add_graph_routes(router, engine, options);
  add_page_routes(router);
  add_profile_routes(router, engine, options.profiler, log);
  if (options.allow_runtime_lora_updating && engine.adapters() != nullptr) {
    add_lora_routes(router, *engine.adapters(), model, log);
  }
  if (options.dev_mode) {
    add_dev_routes(router, engine, options);
    add_sleep_routes(router, engine, generations, log);
  }
  Json schemas = api_schemas();
  schemas.update(dialect_schemas());
  add_openapi_route(router, options.version, std::move(schemas));
  if (options.unix_socket.empty()) {
    port = http.listen(options.host, options.port);
  } else {
    http.listen_unix(options.unix_socket);
  }
  log_throughput(engine, options.log_stats_interval_seconds);
  if (options.generations.sse_keep_alive_interval > 0) keep_streams_alive();
  give_memory_back();
}

HttpHeaders ApiServer::Impl::headers(const HttpRequest& request) {
  HttpHeaders headers = cors_headers(cors, request);
  if (enable_request_id_headers) {
    const bool has_id = !request.request_id.empty();
    headers.emplace_back(kRequestIdHeader, has_id ? request.request_id : generations.new_id());
  }
  return headers;
}

HeadCheck ApiServer::Impl::check_head(const HttpRequest& request) {
  std::string_view handler = "none";
  const Route* found = nullptr;
  try {
    hosts.check(request.host);
    if (std::optional<HttpResponse> answer = answer_preflight(cors, request)) {
      return {.refusal = std::move(answer)};
    }
    // Only OPTIONS may have this path, which means the server as a whole and not a route.
    if (request.path == "*") {
      HttpResponse response{.content_type = "", .headers = {{"Allow", "GET, HEAD, OPTIONS, POST"}}};
      return {.refusal = refuse(request, handler, std::move(response))};
    }
    const Route& route = router.find(request);
    found = &route;
    handler = route.path;
    if (route.access == Access::guarded) keys.check(request.authorization);
    if (!route.body_schema.empty()) {
      // Pages of other origins may not send JSON without a preflight request.
      check_is_json(request.content_type);
    } else if (!needs_key && route.method != "GET") {
      check_is_not_cross_site(request, cors);
    }
    return {.refusal = {}, .takes_body = !route.body_schema.empty()};
  } catch (const MethodNotAllowed& error) {
    HttpResponse response = error_response(error);
    response.headers.emplace_back("Allow", error.allowed());
    return {.refusal = refuse(request, handler, std::move(response))};
  } catch (const ApiError& error) {
    HttpResponse response = error_response(error);
    if (found != nullptr && found->reshape_error != nullptr) {
      response = found->reshape_error(std::move(response));
    }
    return {.refusal = refuse(request, handler, std::move(response))};
  }
}

HttpResponse ApiServer::Impl::refuse(const HttpRequest& request,
                                     std::string_view handler,
                                     HttpResponse response) {
  meter.observe({.handler = handler,
                 .method = request.method,
                 .status = response.status,
                 .response_bytes = response.body.size()});
  return response;
}

void ApiServer::Impl::handle(HttpRequest request, const ExchangeRef& from_client) {
  ExchangeRef exchange = from_client;
  num_trims_left = kTrimsAfterWork;
  try {
    const Route& route = router.find(request);
    if (const auto key = keys.find(request.authorization))
      request.client = fmt::format("key {}", *key);
    exchange = with_reshaped_errors(route, metered(meter, route.path, request, from_client));
    exchange = unused_fields.tell(unused_parameters(route, request), exchange);
    if (route.handle) route.handle(request, exchange);
    if (!route.prepare) return;
    if (route.waits_for_engine) return prepare_on(waiting, route, std::move(request), exchange);
    if (request.body.size() > route.max_inline_bytes) {
      auto client_gone = std::make_shared<std::stop_source>();
      exchange->on_disconnect([client_gone] { client_gone->request_stop(); });
      request.work = WorkLimit(WorkLimit::Clock::now() + kPrepareTime,
                               client_gone->get_token(),
                               end_of_work.get_token());
      return prepare_on(reader, route, std::move(request), exchange);
    }
    answer(route.prepare(request), exchange);
  } catch (const std::exception& error) {
    exchange->respond(error_response(to_api_error(error, model, log)));
  }
}

void ApiServer::Impl::answer(const Answering& answering, const ExchangeRef& exchange) {
  answering.answer(unused_fields.tell(answering.unused_fields, exchange));
}

void ApiServer::Impl::prepare_on(Worker& thread,
                                 const Route& route,
                                 HttpRequest request,
                                 ExchangeRef exchange) {
  // The exchange belongs to the I/O thread, so the worker must not destroy any part of it.
  thread.run([this,
              &route,
              request = std::make_shared<HttpRequest>(std::move(request)),
              exchange = std::move(exchange)]() mutable {
    Answering answering;
    std::exception_ptr failure;
    try {
      request->work.check();
      answering = route.prepare(*request);
    } catch (...) {
      failure = std::current_exception();
    }
    request.reset();
    http.post([this, answering = std::move(answering), failure, exchange = std::move(exchange)] {
      try {
        if (failure) std::rethrow_exception(failure);
        answer(answering, exchange);
      } catch (const std::exception& error) {
        exchange->respond(error_response(to_api_error(error, model, log)));
      }
    });
  });
}

void ApiServer::Impl::log_throughput(api::AsyncEngine& engine, int interval_seconds) {
  if (interval_seconds == 0) return;
  http.post_after(interval_seconds, [this, &engine, interval_seconds] {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - std::exchange(throughput_at, now);
    const api::EngineStats stats = engine.stats();
    if (const auto line = throughput.next_line(stats, passed.count())) log.info(*line);
    if (const auto line = speculation.next_line(stats, passed.count())) log.info(*line);
    if (graphs) waiting.run([this, &engine] { log_graphs(engine); });
    log_throughput(engine, interval_seconds);
  });
}

void ApiServer::Impl::keep_streams_alive() {
  http.post_after(1, [this] {
    generations.keep_streams_alive();
    keep_streams_alive();
  });
}

/// The C library keeps freed memory. A server without work gives it back to the system, so that one
/// large request does not make the process large for ever.
void ApiServer::Impl::give_memory_back() {
#ifdef __GLIBC__
  http.post_after(kIdleSeconds, [this] {
    // A specification whose request has ended holds its memory until its compilation ends.
    const bool is_idle = generations.is_idle() && !generations.is_compiling();
    if (!is_idle) num_trims_left = kTrimsAfterWork;
    if (is_idle && num_trims_left > 0) {
      --num_trims_left;
      generations.forget_rare_specs();
      waiting.run([] { (void)::malloc_trim(0); });
    }
    give_memory_back();
  });
#endif
}

void ApiServer::Impl::log_graphs(api::AsyncEngine& engine) {
  try {
    if (const auto table = graphs->next_table(engine.dispatch_rows())) log.info(*table);
  } catch (const std::exception& error) {
    log.warning(fmt::format("no table of graphs: {}", error.what()));
  }
}

void ApiServer::Impl::on_engine_death(const std::string& reason) {
  log.error(fmt::format("{}; {}",
                        reason,
                        keep_alive_on_engine_death
                            ? "requests get 503 until the server is restarted"
                            : "the server ends: start it again"));
  if (keep_alive_on_engine_death) return;
  end = ServerEnd::engine_death;
  drain();
}

void ApiServer::Impl::on_signal() {
  if (generations.is_draining()) {
    drain_ends = std::chrono::steady_clock::now();
    tell_ending(0);
    return stop_now();
  }
  server_log.info(fmt::format("Shutting down; {} requests are running.", generations.num_active()));
  drain();
  if (generations.num_active() == 0) return;
  http.post_after(shutdown_timeout_seconds, [this] {
    server_log.warning(
        fmt::format("{} requests did not finish in time.", generations.num_active()));
    stop_now();
  });
}

void ApiServer::Impl::on_tls_refresh(const std::string& problem) const {
  if (problem.empty()) return server_log.info("New connections use the TLS files as they are now.");
  server_log.warning(
      fmt::format("The TLS files cannot be used, and the old certificate stays: {}", problem));
}

/// If the file asks for a change that the engine cannot make, nothing changes; the next signal
/// tries it again.
void ApiServer::Impl::reload_config(api::AsyncEngine& engine) {
  try {
    const ReloadedConfig config = read_config();
    if (!config.needs_restart.empty()) {
      log.warning(fmt::format("The configuration has changed in options that need a restart: {}",
                              fmt::join(config.needs_restart, ", ")));
    }
    if (config.graph_change.empty()) {
      return log.info(
          "The configuration was read again; nothing that can change now is different.");
    }
    (void)engine.change_graphs(api::parse_graph_change(config.graph_change));
    config.accept();
    log.info(fmt::format("The configuration was read again; now in force: {}",
                         config.graph_change.dump()));
  } catch (const std::exception& error) {
    log.warning(
        fmt::format("The configuration was read again and changes nothing: {}", error.what()));
  }
}

/// Requests that are not admitted yet will be refused, so the work on them stops at once.
void ApiServer::Impl::drain() {
  using std::chrono::seconds;
  drain_ends = std::chrono::steady_clock::now() + seconds(shutdown_timeout_seconds);
  tell_ending(shutdown_timeout_seconds);
  end_of_work.request_stop();
  generations.drain([this] {
    const auto rest = std::chrono::ceil<seconds>(drain_ends - std::chrono::steady_clock::now());
    http.shut_down(std::clamp(static_cast<int>(rest.count()), kMinFlushSeconds, kMaxFlushSeconds));
  });
}

/// Answers end after `drain_seconds` at the latest. Clients then have a moment to read them.
void ApiServer::Impl::tell_ending(int drain_seconds) {
  if (on_ending) on_ending(end, std::chrono::seconds(drain_seconds + kMinFlushSeconds));
}

void ApiServer::Impl::stop_now() {
  const bool is_flushing = generations.num_active() == 0;
  if (is_flushing) return http.stop();
  generations.fail_all(ApiError(503, "The server is shutting down."));
}

ApiServer::ApiServer(const ServerOptions& options, api::AsyncEngine& engine)
    : impl_(std::make_unique<Impl>(options, engine)) {}
ApiServer::~ApiServer() = default;

uint16_t ApiServer::port() const noexcept { return impl_->port; }
ServerEnd ApiServer::run() {
  impl_->http.run();
  impl_->end_of_work.request_stop();  // when the loop ended without a drain
  return impl_->end;
}

}  // namespace reprise::server
