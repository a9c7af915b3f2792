#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/server/http/router.h"
#include "reprise/server/server_options.h"

namespace reprise::server {

/// Adds /start_profile and /stop_profile. Without a folder for traces they answer 404, the same as
/// vLLM, and name the option to set. The borrowed arguments must outlive `router`.
void add_profile_routes(Router& router,
                        api::AsyncEngine& engine,
                        const ProfilerOptions& options,
                        const Log& log);

}  // namespace reprise::server
