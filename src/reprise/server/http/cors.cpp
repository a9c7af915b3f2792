#include "reprise/server/http/cors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace reprise::server {
namespace {

constexpr std::string_view kAllMethods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
constexpr const char* kMaxAgeSeconds = "600";

bool holds(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// A client's text must not fill the headers of the answer.
constexpr size_t kMaxEchoedOrigin = 256;
constexpr size_t kMaxEchoedHeaders = 1024;

bool may_be_echoed(std::string_view text, size_t max_bytes) {
  return text.size() <= max_bytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 127; });
}

bool is_all(const std::vector<std::string>& list) { return holds(list, "*"); }

}  // namespace

bool allows_origin(const CorsOptions& options, std::string_view origin) {
  return is_all(options.allowed_origins) || holds(options.allowed_origins, origin);
}

std::optional<HttpResponse> answer_preflight(const CorsOptions& options,
                                             const HttpRequest& request) {
  if (request.method != "OPTIONS" || request.origin.empty() || request.preflight_method.empty() ||
      options.allowed_origins.empty()) {
    return {};
  }
  HttpResponse response{.body = "OK", .content_type = "text/plain; charset=utf-8"};
  const bool is_allowed =
      allows_origin(options, request.origin) &&
      (is_all(options.allowed_methods) || holds(options.allowed_methods, request.preflight_method));
  if (!is_allowed) {
    response.status = 400;
    response.body = "Disallowed CORS origin or method";
    return response;
  }
  const bool all_methods = is_all(options.allowed_methods);
  response.headers.emplace_back("Access-Control-Allow-Methods",
                                all_methods
                                    ? std::string(kAllMethods)
                                    : fmt::format("{}", fmt::join(options.allowed_methods, ", ")));
  const bool all_headers = is_all(options.allowed_headers);
  const std::string headers = all_headers
                                  ? request.preflight_headers
                                  : fmt::format("{}", fmt::join(options.allowed_headers, ", "));
  if (!headers.empty() && (!all_headers || may_be_echoed(headers, kMaxEchoedHeaders)))
    response.headers.emplace_back("Access-Control-Allow-Headers", headers);
  response.headers.emplace_back("Access-Control-Max-Age", kMaxAgeSeconds);
  return response;
}

HttpHeaders cors_headers(const CorsOptions& options, const HttpRequest& request) {
  if (request.origin.empty() || !allows_origin(options, request.origin) ||
      !may_be_echoed(request.origin, kMaxEchoedOrigin)) {
    return {};
  }
  // Browsers reject "*" together with credentials, so the answer names the origin.
  const bool names_origin = !is_all(options.allowed_origins) || options.allow_credentials;
  HttpHeaders headers = {
      {"Access-Control-Allow-Origin", names_origin ? request.origin : std::string("*")},
      {"Access-Control-Expose-Headers", "X-Request-Id"}};
  if (names_origin) headers.emplace_back("Vary", "Origin");
  if (options.allow_credentials) headers.emplace_back("Access-Control-Allow-Credentials", "true");
  return headers;
}

}  // namespace reprise::server
