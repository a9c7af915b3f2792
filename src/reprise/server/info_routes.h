#pragma once

#include <string>

#include "reprise/api/async_engine.h"
#include "reprise/server/http/http_meter.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// How the server is: /health, /ping, /version, /metrics, /load. What is borrowed outlives
/// `router`.
void add_info_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const GenerationService& generations,
                     const ServedModel& model,
                     const HttpMeter& meter,
                     const std::string& version);

}  // namespace reprise::server
