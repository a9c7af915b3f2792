#pragma once

#include <string_view>

#include "reprise/base/json.h"
#include "reprise/server/http/router.h"

namespace reprise::server {

/// The description of the API in OpenAPI 3.1: the routes of `router`. `schemas`: of the bodies that
/// the routes name.
[[nodiscard]] Json openapi_document(const Router& router,
                                    std::string_view version,
                                    const Json& schemas);

/// Adds /openapi.json, which describes every route of `router`, including routes added later.
void add_openapi_route(Router& router, std::string_view version, Json schemas);

}  // namespace reprise::server
