#include "reprise/server/api_server.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "reprise/server/access.h"
#include "reprise/server/api_error.h"
#include "reprise/server/generation_routes.h"
#include "reprise/server/generation_service.h"
#include "reprise/server/info_routes.h"
#include "reprise/server/model_routes.h"
#include "reprise/server/openapi.h"
#include "reprise/server/prompt_encoder.h"
#include "reprise/server/router.h"
#include "reprise/server/served_model.h"
#include "reprise/server/tokenizer_routes.h"

namespace reprise::server {
namespace {

// After the last answer of a drain was written: for slow readers.
constexpr int kFlushSeconds = 5;

}  // namespace

struct ApiServer::Impl {
  Impl(const ServerOptions& options, api::AsyncEngine& engine);

  std::optional<HttpResponse> check_head(const HttpRequest& request) const;
  void handle(const HttpRequest& request, const ExchangeRef& exchange) const;
  void on_signal();
  void stop_now();

  int shutdown_timeout_seconds;
  ApiKeys keys;
  ServedModel model;
  PromptEncoder prompts;
  Router router;
  HttpServer http;
  GenerationService generations;
  uint16_t port;
};

ApiServer::Impl::Impl(const ServerOptions& options, api::AsyncEngine& engine)
    : shutdown_timeout_seconds(options.shutdown_timeout_seconds),
      keys(options.api_keys),
      model(options, engine.startup_report().max_model_len),
      prompts(engine),
      http(options.limits,
           {.check_head = [this](const HttpRequest& request) { return check_head(request); },
            .handle = [this](const HttpRequest& request,
                             const ExchangeRef& exchange) { handle(request, exchange); },
            .on_signal = [this] { on_signal(); }}),
      generations({.capacity = int64_t{options.max_num_seqs} + options.max_waiting_requests,
                   .enable_prompt_tokens_details = options.enable_prompt_tokens_details},
                  engine,
                  model,
                  [this](std::function<void()> task) { http.post(std::move(task)); }) {
  check_exposure(options);
  add_info_routes(router, engine, generations, model, options.version);
  add_model_routes(router, model);
  add_generation_routes(router, engine, generations, model, prompts);
  add_tokenizer_routes(router, engine, model);
  add_openapi_route(router, options.version);
  port = http.listen(options.host, options.port);
}

std::optional<HttpResponse> ApiServer::Impl::check_head(const HttpRequest& request) const {
  try {
    const Route& route = router.find(request);
    if (route.access == Access::guarded) keys.check(request.authorization);
    if (!route.body_schema.empty()) check_is_json(request.content_type);
    return {};
  } catch (const MethodNotAllowed& error) {
    HttpResponse response = error_response(error);
    response.headers.emplace_back("Allow", error.allowed());
    return response;
  } catch (const ApiError& error) {
    return error_response(error);
  }
}

void ApiServer::Impl::handle(const HttpRequest& request, const ExchangeRef& exchange) const {
  try {
    const Route& route = router.find(request);
    route.handle(request, exchange);
  } catch (const std::exception& error) {
    exchange->respond(error_response(to_api_error(error, model)));
  }
}

void ApiServer::Impl::on_signal() {
  if (generations.is_draining()) return stop_now();
  fmt::print(
      stderr, "INFO:     Shutting down; {} requests are running.\n", generations.num_active());
  generations.drain([this] { http.shut_down(kFlushSeconds); });
  if (generations.num_active() == 0) return;
  http.post_after(shutdown_timeout_seconds, [this] {
    fmt::print(stderr, "WARNING:  {} requests did not finish in time.\n", generations.num_active());
    stop_now();
  });
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
void ApiServer::run() { impl_->http.run(); }

}  // namespace reprise::server
