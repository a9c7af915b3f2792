#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::http_client {

/// The parts of "http://host:port/path".
struct BaseUrl {
  bool is_tls = false;  // https
  std::string host;
  uint16_t port = 80;
  std::string path;  // "" or "/v1": comes before every target

  /// "host:port", with brackets around an IPv6 address.
  [[nodiscard]] std::string authority() const;
  /// The authority for the header Host: without the port if it is the scheme's default port. Signed
  /// addresses of object stores are only valid with exactly this form.
  [[nodiscard]] std::string host_header() const;
};
/// \throws InvalidArgument naming `option`
[[nodiscard]] BaseUrl parse_url(std::string_view option, std::string_view text);

}  // namespace reprise::http_client
