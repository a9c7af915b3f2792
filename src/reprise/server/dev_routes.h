#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// What vLLM serves in development mode: /server_info, /reset_prefix_cache. What is borrowed
/// outlives `router`.
void add_dev_routes(Router& router, api::AsyncEngine& engine, const ServerOptions& options);

}  // namespace reprise::server
