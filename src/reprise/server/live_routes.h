#pragma once

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// What GET /live answers: the engine now, and what its last steps replayed. `seconds`: of a clock
/// that only differences mean something of.
[[nodiscard]] Json live_json(const api::EngineStats& stats, std::string_view model, double seconds);

/// GET /live, for the chat page. What is borrowed outlives `router`.
void add_live_routes(Router& router, const api::AsyncEngine& engine, const ServedModel& model);

}  // namespace reprise::server
