#include "reprise/server/graph_routes.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/api/graphs/graph_changes.h"
#include "reprise/server/http/api_error.h"
#include "reprise/server/http/request_query.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {
namespace {

Answering answer_json(const Json& json) {
  return {[body = dump(json)](const ExchangeRef& exchange) {
    exchange->respond({.body = body, .headers = {{"Cache-Control", "no-store"}}});
  }};
}

Answering change(api::AsyncEngine& engine, const HttpRequest& request) {
  try {
    return answer_json(engine.change_graphs(api::parse_graph_change(parse_body(request.body))));
  } catch (const api::GraphsBusyError& error) {
    throw ApiError(409, error.what());
  }
}

// The pages run no scripts, load nothing, and send forms to this server only. Styles are allowed,
// because bars have widths.
constexpr const char* kGraphPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'";

Answering answer_page(std::string html) {
  return {[html = std::move(html)](const ExchangeRef& exchange) {
    exchange->respond({.body = html,
                       .content_type = "text/html; charset=utf-8",
                       .headers = {{"Content-Security-Policy", kGraphPagePolicy},
                                   {"X-Content-Type-Options", "nosniff"},
                                   {"Referrer-Policy", "same-origin"},
                                   {"Cache-Control", "no-store"}}});
  }};
}

Answering profile(api::AsyncEngine& engine,
                  const GraphPages& pages,
                  std::string_view key,
                  const HttpRequest& request) {
  const std::vector<std::string> formats = query_values(request.query, "format");
  if (formats.size() > 1 || (!formats.empty() && formats[0] != "html" && formats[0] != "json")) {
    throw ApiError(400, "format must be html or json.", "format");
  }
  try {
    const Json profiled = engine.profile_graph(key);
    const bool as_json = !formats.empty() && formats[0] == "json";
    return as_json ? answer_json(profiled) : answer_page(pages.profile(profiled));
  } catch (const api::GraphsBusyError& error) {
    throw ApiError(409, error.what());
  }
}

void add_graph_pages(Router& router, api::AsyncEngine& engine, const GraphPages& pages) {
  router.add(
      {.method = "GET",
       .path = "/graphs",
       .answer_types = {"text/html"},
       .summary = "A page of the graphs of the engine.",
       .prepare = [&engine,
                   pages](const HttpRequest&) { return answer_page(pages.list(engine.graphs())); },
       .waits_for_engine = true});
  Route route{
      .method = "POST",
      .path = "/graphs/{key}",
      .query = {{"format", R"({"enum": ["html", "json"], "default": "html"})", "The form."}},
      .answer_types = {"text/html", "application/json"},
      .summary =
          "The nodes of a graph with their memory and times; forgets cached prefixes, "
          "and is refused with 409 while requests are answered.",
      .waits_for_engine = true};
  route.prepare = [&engine, pages, name = route](const HttpRequest& request) {
    return profile(engine, pages, name.parameter_in(request.path), request);
  };
  router.add(std::move(route));
}

}  // namespace

void add_graph_routes(Router& router, api::AsyncEngine& engine, const ServerOptions& options) {
  router.add({.method = "GET",
              .path = "/v1/graphs",
              .summary = "The graphs of the engine, and what the last change did.",
              .prepare = [&engine](const HttpRequest&) { return answer_json(engine.graphs()); },
              .waits_for_engine = true});
  if (!options.dev_mode) return;
  if (options.graph_pages.are_served(options.dev_mode)) {
    add_graph_pages(router, engine, options.graph_pages);
  }
  router.add({.method = "POST",
              .path = "/v1/graphs",
              .body_schema = "ChangeGraphsRequest",
              .summary = "Changes the graphs while requests run; 409 while a change captures.",
              .prepare = [&engine](const HttpRequest& request) { return change(engine, request); },
              .waits_for_engine = true});
}

}  // namespace reprise::server
