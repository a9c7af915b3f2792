#pragma once

#include <string>
#include <string_view>

#include "reprise/server/metrics/metric_table.h"

namespace reprise::server {

inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// GET /metrics: every family of the table as Prometheus text.
[[nodiscard]] std::string metrics_text(const MetricsSource& source);

}  // namespace reprise::server
