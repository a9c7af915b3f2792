#include "reprise/server/http/allowed_hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lower;
}

/// "Example.com.:8000" becomes "example.com", "[::1]:8000" becomes "::1".
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) {
    return lower_case(host.substr(1, std::min(host.find(']'), host.size()) - 1));
  }
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return lower_case(host);
}

bool is_address(const std::string& name) {
  in6_addr address{};
  return inet_pton(AF_INET, name.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  const size_t end_of_scheme = origin.find("://");
  if (end_of_scheme == std::string_view::npos) return false;
  return lower_case(origin.substr(end_of_scheme + 3)) == lower_case(host);
}

}  // namespace

AllowedHosts::AllowedHosts(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::string& name : names_) name = lower_case(name);
}

bool AllowedHosts::holds(std::string_view host) const {
  const std::string name = name_of(host);
  // Only HTTP/1.0 may omit the header, and no browser uses HTTP/1.0.
  if (name.empty() || name == "localhost" || name.ends_with(".localhost") || is_address(name)) {
    return true;
  }
  return std::any_of(names_.begin(), names_.end(), [&name](std::string_view allowed) {
    if (allowed == "*" || allowed == name) return true;
    return allowed.starts_with("*.") && name.ends_with(allowed.substr(1));
  });
}

void AllowedHosts::check(std::string_view host) const {
  if (holds(host)) return;
  throw ApiError(403,
                 fmt::format("This server needs no key, so it does not answer under the name {}, "
                             "which a web page could have chosen. Use localhost or an address, "
                             "start the server with --allowed-hosts, or with a key.",
                             name_of(host).substr(0, 128)));
}

void check_is_not_cross_site(const HttpRequest& request, const CorsOptions& cors) {
  const bool is_cross_site =
      request.fetch_site == "cross-site" || request.fetch_site == "same-site";
  const bool has_foreign_origin =
      !request.origin.empty() && !is_same_origin(request.origin, request.host);
  if ((!is_cross_site && !has_foreign_origin) || allows_origin(cors, request.origin)) return;
  throw ApiError(403,
                 "Pages of another origin may not use this route. --allowed-origins allows an "
                 "origin.");
}

}  // namespace reprise::server
