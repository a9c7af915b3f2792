#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/http_client/base_url.h"

namespace reprise::http_client {

/// A proxy that opens tunnels to https servers (CONNECT).
struct HttpProxy {
  BaseUrl url;                // http
  std::string authorization;  // of Proxy-Authorization; empty: none
};

/// Which servers are asked through which proxy, by HTTPS_PROXY and NO_PROXY.
class ProxyRules {
 public:
  ProxyRules() = default;
  /// `proxy`: "http://user:password@host:port" or "host:port"; empty: none. `exceptions`: names of
  /// hosts and domains between commas, which are asked directly; "*": all.
  /// \throws InvalidArgument naming HTTPS_PROXY, without the password
  ProxyRules(std::string_view proxy, std::string_view exceptions);

  /// nullopt: the server is asked directly.
  [[nodiscard]] std::optional<HttpProxy> proxy_for(const BaseUrl& server) const;

 private:
  std::optional<HttpProxy> proxy_;
  std::vector<std::string> exceptions_;
};

}  // namespace reprise::http_client
