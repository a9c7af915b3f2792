#pragma once

#include <string_view>

#include "reprise/base/json.h"
#include "reprise/server/http/router.h"

namespace reprise::server {

/// The API as OpenAPI 3.1: what `router` serves, with the bodies of api_schemas().
[[nodiscard]] Json openapi_document(const Router& router, std::string_view version);

/// /openapi.json, which describes every route of `router`, also those that are added later.
void add_openapi_route(Router& router, std::string_view version);

}  // namespace reprise::server
