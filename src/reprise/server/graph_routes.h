#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// Adds GET /v1/graphs. In development mode also adds POST /v1/graphs, which changes graphs, and
/// the pages GET /graphs and POST /graphs/{key}. `engine` must outlive `router`.
void add_graph_routes(Router& router, api::AsyncEngine& engine, const ServerOptions& options);

}  // namespace reprise::server
