#pragma once

#include "reprise/server/http/router.h"

namespace reprise::server {

/// Wraps `exchange` so that answers of status 400 or more have the form of the route's API. Returns
/// `exchange` itself if that is OpenAI's form.
[[nodiscard]] ExchangeRef with_reshaped_errors(const Route& route, const ExchangeRef& exchange);

}  // namespace reprise::server
