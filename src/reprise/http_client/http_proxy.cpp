#include "reprise/http_client/http_proxy.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"

namespace reprise::http_client {
namespace {

std::string base64(std::string_view text) {
  std::string encoded(4 * ((text.size() + 2) / 3) + 1, '\0');  // with the 0 that OpenSSL writes
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  encoded.resize(static_cast<size_t>(length));
  return encoded;
}

/// The bytes for which %XX stands.
std::string unescape(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned int byte = 0;
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
            text.data() + i + 3;
    plain += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

bool is_in_domain(std::string_view host, std::string_view domain) {
  while (domain.starts_with('.')) domain.remove_prefix(1);
  if (domain.empty() || host.size() < domain.size()) return false;
  const size_t at = host.size() - domain.size();
  return equal_ignoring_case(host.substr(at), domain) && (at == 0 || host[at - 1] == '.');
}

}  // namespace

ProxyRules::ProxyRules(std::string_view proxy, std::string_view exceptions) {
  if (proxy.empty()) return;
  constexpr std::string_view kHttp = "http://";
  if (proxy.find("://") != std::string_view::npos && !proxy.starts_with(kHttp)) {
    throw InvalidArgument(
        "HTTPS_PROXY: expected the address of an HTTP proxy, http://HOST:PORT; proxies of other "
        "kinds (https, socks) are not supported");
  }
  if (proxy.starts_with(kHttp)) proxy.remove_prefix(kHttp.size());
  HttpProxy parsed;
  if (const size_t at = proxy.rfind('@'); at != std::string_view::npos) {
    parsed.authorization = "Basic " + base64(unescape(proxy.substr(0, at)));
    proxy.remove_prefix(at + 1);
  }
  parsed.url = parse_url("HTTPS_PROXY", fmt::format("{}{}", kHttp, proxy));
  proxy_ = std::move(parsed);
  while (!exceptions.empty()) {
    const size_t comma = std::min(exceptions.find(','), exceptions.size());
    std::string_view name = exceptions.substr(0, comma);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) exceptions_.emplace_back(name);
    exceptions.remove_prefix(std::min(comma + 1, exceptions.size()));
  }
}

std::optional<HttpProxy> ProxyRules::proxy_for(const BaseUrl& server) const {
  if (!server.is_tls) return std::nullopt;
  const bool is_direct = std::ranges::any_of(exceptions_, [&](const std::string& name) {
    return name == "*" || is_in_domain(server.host, name);
  });
  return is_direct ? std::nullopt : proxy_;
}

}  // namespace reprise::http_client
