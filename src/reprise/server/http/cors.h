#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// Which pages of other origins browsers may let in. "*" in a list means all.
struct CorsOptions {
  std::vector<std::string> allowed_origins;  // empty: none
  std::vector<std::string> allowed_methods = {"*"};
  std::vector<std::string> allowed_headers = {"*"};
  bool allow_credentials = false;
};

/// The answer to a browser's question before a request; nothing when `request` is none or no origin
/// is allowed at all.
[[nodiscard]] std::optional<HttpResponse> answer_preflight(const CorsOptions& options,
                                                           const HttpRequest& request);

/// What any answer to `request` tells the browser.
[[nodiscard]] HttpHeaders cors_headers(const CorsOptions& options, const HttpRequest& request);

}  // namespace reprise::server
