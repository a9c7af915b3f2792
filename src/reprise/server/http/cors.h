#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// The pages of other origins that may use this server from browsers. "*" in a list means all.
struct CorsOptions {
  std::vector<std::string> allowed_origins;  // empty: none
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
};

/// Whether pages of `origin` may use the server.
[[nodiscard]] bool allows_origin(const CorsOptions& options, std::string_view origin);

/// The answer to a browser's preflight request; nullopt when `request` is not a preflight request
/// or when no origin is allowed at all.
[[nodiscard]] std::optional<HttpResponse> answer_preflight(const CorsOptions& options,
                                                           const HttpRequest& request);

/// The CORS headers of the answer to `request`.
[[nodiscard]] HttpHeaders cors_headers(const CorsOptions& options, const HttpRequest& request);

}  // namespace reprise::server
