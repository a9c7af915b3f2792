#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/base/log.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"

namespace reprise::server {

/// Adds vLLM's routes for engines that can sleep: /sleep, /wake_up, /is_sleeping. The borrowed
/// arguments must outlive `router`.
void add_sleep_routes(Router& router,
                      api::AsyncEngine& engine,
                      const GenerationService& generations,
                      const Log& log);

}  // namespace reprise::server
