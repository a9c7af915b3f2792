#include "reprise/server/http/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/server/http/request_query.h"

namespace reprise::server {
namespace {

bool fits(const Route& route, std::string_view path) {
  const std::string_view fixed = route.fixed_part();
  const bool has_parameter = fixed.size() < route.path.size();
  return has_parameter ? path.starts_with(fixed) && path.size() > fixed.size() : path == fixed;
}

}  // namespace

std::string_view Route::fixed_part() const {
  return std::string_view(path).substr(0, path.find('{'));
}

std::string Route::parameter_in(std::string_view request_path) const {
  return percent_decode(request_path.substr(std::min(fixed_part().size(), request_path.size())));
}

MethodNotAllowed::MethodNotAllowed(const std::string& allowed)
    : ApiError(405, fmt::format("Method Not Allowed; this path takes {}.", allowed)),
      allowed_(allowed) {}

const Route& Router::find(const HttpRequest& request) const {
  // RFC 9110, 9.3.2: HEAD is GET without the body, which the session leaves out.
  const std::string_view method =
      request.method == "HEAD" ? std::string_view("GET") : std::string_view(request.method);
  std::string allowed;
  for (const Route& route : routes_) {
    if (!fits(route, request.path)) continue;
    if (route.method == method) return route;
    allowed += allowed.empty() ? "" : ", ";
    allowed += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  if (allowed.empty()) throw ApiError(404, "Not Found");
  throw MethodNotAllowed(allowed);
}

void answer_empty(const ExchangeRef& exchange) { exchange->respond({.content_type = ""}); }

void check_is_json(std::string_view content_type) {
  std::string media_type(content_type.substr(0, content_type.find(';')));
  std::transform(media_type.begin(), media_type.end(), media_type.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c);
  });
  media_type.erase(media_type.find_last_not_of(' ') + 1);
  if (media_type == "application/json") return;
  throw ApiError(415, "Unsupported Media Type: Only 'application/json' is allowed");
}

}  // namespace reprise::server
