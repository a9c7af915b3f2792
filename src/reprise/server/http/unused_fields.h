#pragma once

#include <set>
#include <string>
#include <vector>

#include "reprise/base/log.h"
#include "reprise/server/http/router.h"

namespace reprise::server {

/// The header of an answer that names the fields of the request that had no effect.
inline constexpr const char* kUnusedFieldsHeader = "X-Unused-Fields";

/// Tells clients and operators which fields of requests have no effect: each answer lists its
/// request's fields of this kind in a header, and the log names each field once. I/O thread only.
class UnusedFields {
 public:
  explicit UnusedFields(Log log) : log_(std::move(log)) {}

  /// `names` are bounded and printable, as RequestFields::unused() makes them. Returns `exchange`
  /// itself when there are none.
  [[nodiscard]] ExchangeRef tell(const std::vector<std::string>& names,
                                 const ExchangeRef& exchange);

 private:
  Log log_;
  std::set<std::string> logged_;
};

/// The parameters in the query of a request that its route does not have, as "?name".
[[nodiscard]] std::vector<std::string> unused_parameters(const Route& route,
                                                         const HttpRequest& request);

}  // namespace reprise::server
