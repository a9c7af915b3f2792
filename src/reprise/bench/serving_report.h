#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/bench/serving_metrics.h"

namespace reprise::bench {

struct ReportOptions {
  double request_rate = std::numeric_limits<double>::infinity();
  std::optional<int32_t> max_concurrency;
  bool shows_goodput = false;
  std::vector<std::string> metrics = {"ttft", "tpot", "itl"};  // and "e2el"
};

/// \throws InvalidArgument that names the unknown metric
void check_metric_names(const std::vector<std::string>& names);

/// vLLM's block of results on the console, in vLLM's layout, which scripts read.
[[nodiscard]] std::string console_block(const ServingMetrics& metrics,
                                        const ReportOptions& options);

/// The results as JSON with vLLM's members. `detailed` adds one value per request.
[[nodiscard]] Json to_json(const ServingMetrics& metrics,
                           const ReportOptions& options,
                           const LoadResult& result,
                           bool detailed);

/// The number in Python's spelling: "20.0", "0.5", "inf".
[[nodiscard]] std::string python_float(double value);

}  // namespace reprise::bench
