#include "reprise/server/info_routes.h"

#include <utility>

#include "reprise/server/metrics/metrics.h"
#include "reprise/server/openai/generation_service.h"

namespace reprise::server {
void add_info_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const GenerationService& generations,
                     const ServedModel& model,
                     const HttpMeter& meter,
                     const LineWriter& lines,
                     const std::string& version) {
  const auto health = [&generations](const HttpRequest&, const ExchangeRef& exchange) {
    generations.check_health();
    answer_empty(exchange);
  };
  for (const auto& [method, path] :
       {std::pair{"GET", "/health"}, {"GET", "/ping"}, {"POST", "/ping"}}) {
    router.add({.method = method,
                .path = path,
                .access = Access::open,
                .answer_types = {},
                .summary = "200 while requests are served, else 503.",
                .handle = health});
  }
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
              .answer_types = {"text/plain"},
              .summary = "Metrics for Prometheus.",
              .handle = [&engine, &generations, &model, &meter, &lines](
                            const HttpRequest&, const ExchangeRef& exchange) {
                const std::vector<api::EngineStats> engines = engine.stats_of_engines();
                exchange->respond({.body = metrics_text({.engine = engines[0],
                                                         .startup = engine.startup_report(),
                                                         .generations = generations.counts(),
                                                         .http = meter,
                                                         .process = read_process_facts(),
                                                         .dropped_log_lines = lines.num_dropped(),
                                                         .spans = generations.span_counts(),
                                                         .model_name = model.name(),
                                                         .engines = engines}),
                                   .content_type = std::string(kMetricsContentType)});
              }});
  router.add({.method = "GET",
              .path = "/load",
              .access = Access::open,
              .summary = "How many requests are being answered, for load balancers.",
              .handle = [&generations](const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = dump({{"server_load", generations.num_requests()}})});
              }});
}

}  // namespace reprise::server
