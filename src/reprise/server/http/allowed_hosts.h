#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/server/http/cors.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// The host names under which the server answers. A web page can give its own name the address of
/// the reader's machine (DNS rebinding); the browser then takes the server for the page's. Such a
/// request still carries the page's name in its Host header, so it is recognized and refused.
///
/// Addresses, localhost and names below localhost are always accepted: no page can have them.
class AllowedHosts {
 public:
  /// Accepts every name.
  AllowedHosts() : names_{"*"} {}
  /// "*" in the list accepts every name; "*.example.com" accepts the names below example.com.
  explicit AllowedHosts(std::vector<std::string> names);

  /// `host`: the value of the header, perhaps with a port.
  [[nodiscard]] bool holds(std::string_view host) const;
  /// \throws ApiError 403 naming the option that allows the name
  void check(std::string_view host) const;

 private:
  std::vector<std::string> names_;  // lower case
};

/// For a route that changes something and takes no JSON body: browsers let any page send such a
/// request without asking first. \throws ApiError 403 when `request` comes from a page of another
/// origin that `cors` does not allow. Programs that are not browsers send no Origin.
void check_is_not_cross_site(const HttpRequest& request, const CorsOptions& cors);

}  // namespace reprise::server
