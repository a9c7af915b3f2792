#include "reprise/server/info_routes.h"

#include "reprise/server/metrics.h"

namespace reprise::server {

void add_info_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const GenerationService& generations,
                     const ServedModel& model,
                     const std::string& version) {
  const auto health = [&generations](const HttpRequest&, const ExchangeRef& exchange) {
    generations.check_health();
    exchange->respond({.content_type = ""});
  };
  router.add({.method = "GET",
              .path = "/health",
              .access = Access::open,
              .summary = "200 while requests are served, else 503.",
              .handle = health});
  router.add({.method = "GET",
              .path = "/ping",
              .access = Access::open,
              .summary = "The same as /health.",
              .handle = health});
  router.add({.method = "POST",
              .path = "/ping",
              .access = Access::open,
              .summary = "The same as /health.",
              .handle = health});
  router.add({.method = "GET",
              .path = "/version",
              .access = Access::open,
              .summary = "The server's version.",
              .handle = [version](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump({{"version", version}})});
              }});
  router.add({.method = "GET",
              .path = "/metrics",
              .access = Access::open,
              .summary = "Metrics for Prometheus.",
              .handle = [&engine, &model](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = metrics_text(engine.stats(), model.name()),
                                   .content_type = std::string(kMetricsContentType)});
              }});
}

}  // namespace reprise::server
