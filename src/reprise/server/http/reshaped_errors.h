#pragma once

#include "reprise/server/http/router.h"

namespace reprise::server {

/// Wraps `exchange` so that its answers of status 400 or more have the form of the route's API.
/// Returns `exchange` itself when that is OpenAI's.
[[nodiscard]] ExchangeRef with_reshaped_errors(const Route& route, const ExchangeRef& exchange);

}  // namespace reprise::server
