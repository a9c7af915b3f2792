#include "reprise/server/server_options.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::server {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

void check_exposure(const ServerOptions& options) {
  // A Unix socket is protected by the permissions of its folder.
  if (!options.unix_socket.empty() || is_loopback(options.host)) return;
  if (!options.api_keys.empty() || options.allow_unauthenticated) return;
  throw InvalidArgument(fmt::format(
      "--host {} lets other machines in, and no --api-key protects the server; give one (or set "
      "VLLM_API_KEY), listen on 127.0.0.1, or say --allow-unauthenticated",
      options.host));
}

void check_listening(const ServerOptions& options) {
  HttpServer server(options.http, {});
  if (options.unix_socket.empty()) {
    server.reserve(options.host, options.port);
  } else {
    server.reserve_unix(options.unix_socket);
  }
}

AllowedHosts allowed_hosts(const ServerOptions& options) {
  const bool is_open_to_pages =
      options.unix_socket.empty() && options.api_keys.empty() && is_loopback(options.host);
  if (options.allowed_hosts.empty() && !is_open_to_pages) return {};
  std::vector<std::string> names = options.allowed_hosts;
  names.push_back(options.host);
  return AllowedHosts(std::move(names));
}

}  // namespace reprise::server
