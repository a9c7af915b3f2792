#include "reprise/server/router.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::server {
namespace {

/// "%2F" becomes "/". What is no escape stays as it is: nothing will have that name.
std::string percent_decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

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
  std::string allowed;
  for (const Route& route : routes_) {
    if (!fits(route, request.path)) continue;
    if (route.method == request.method) return route;
    allowed += allowed.empty() ? "" : ", ";
    allowed += route.method;
  }
  if (allowed.empty()) throw ApiError(404, "Not Found");
  throw MethodNotAllowed(allowed);
}

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
