#pragma once

#include <string>

#include "reprise/api/async_engine.h"
#include "reprise/base/line_writer.h"
#include "reprise/server/http/http_meter.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/generation_service.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// Adds the routes that report the server's state: /health, /ping, /version, /metrics, /load. The
/// borrowed arguments must outlive `router`.
void add_info_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const GenerationService& generations,
                     const ServedModel& model,
                     const HttpMeter& meter,
                     const LineWriter& lines,
                     const std::string& version);

}  // namespace reprise::server
