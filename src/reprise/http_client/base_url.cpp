#include "reprise/http_client/base_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "reprise/base/error.h"

namespace reprise::http_client {

std::string BaseUrl::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::string BaseUrl::host_header() const {
  if (port != (is_tls ? 443 : 80)) return authority();
  return host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
}

BaseUrl parse_url(std::string_view option, std::string_view text) {
  const auto refuse = [&](std::string_view why) -> InvalidArgument {
    return InvalidArgument(
        fmt::format("{}: '{}' {}; expected http://HOST:PORT/PATH or https://HOST:PORT/PATH",
                    option,
                    text,
                    why));
  };
  std::string_view rest = text;
  constexpr std::string_view kHttp = "http://";
  constexpr std::string_view kHttps = "https://";
  BaseUrl url{.is_tls = rest.starts_with(kHttps)};
  if (!url.is_tls && !rest.starts_with(kHttp)) {
    throw refuse("does not begin with http:// or https://");
  }
  rest.remove_prefix(url.is_tls ? kHttps.size() : kHttp.size());
  if (url.is_tls) url.port = 443;
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  rest = rest.substr(0, slash);
  if (const bool is_v6 = rest.starts_with('['); is_v6) {
    const size_t end = rest.find(']');
    if (end == std::string_view::npos) throw refuse("has no ']' after its address");
    url.host = rest.substr(1, end - 1);
    rest = rest.substr(end + 1);
  } else {
    const size_t colon = std::min(rest.find(':'), rest.size());
    url.host = rest.substr(0, colon);
    rest = rest.substr(colon);
  }
  const bool has_bad_byte =
      std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c == 127; });
  if (url.host.empty() || has_bad_byte) throw refuse("names no host");
  if (rest.empty()) return url;
  rest.remove_prefix(1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), url.port);
  if (error != std::errc{} || end != rest.data() + rest.size() || url.port == 0) {
    throw refuse("has no port in 1..65535");
  }
  return url;
}

}  // namespace reprise::http_client
