#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/server/http/router.h"
#include "reprise/server/openai/served_model.h"

namespace reprise::server {

/// The answer of GET /live: the state of the engine now, and the graphs its last steps replayed.
/// `seconds` comes from a clock without a fixed zero; only differences are meaningful.
[[nodiscard]] Json live_json(const api::EngineStats& stats, std::string_view model, double seconds);

/// Whether the chat page can link to GET /graphs.
enum class GraphsPage : uint8_t { absent, served };

/// Adds GET /live, which the chat page reads. `engine` and `model` must outlive `router`.
void add_live_routes(Router& router,
                     const api::AsyncEngine& engine,
                     const ServedModel& model,
                     GraphsPage graphs_page);

}  // namespace reprise::server
