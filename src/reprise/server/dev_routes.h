#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// Adds the routes of vLLM's development mode: /server_info and /reset_prefix_cache. `engine` and
/// `options` must outlive `router`.
void add_dev_routes(Router& router, api::AsyncEngine& engine, const ServerOptions& options);

}  // namespace reprise::server
