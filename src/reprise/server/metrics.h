#pragma once

#include <string>
#include <string_view>

#include "reprise/api/async_engine.h"

namespace reprise::server {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// GET /metrics: Prometheus text with vLLM's names, plus steps by cudagraph mode.
[[nodiscard]] std::string metrics_text(const api::EngineStats& stats, std::string_view model_name);

}  // namespace reprise::server
