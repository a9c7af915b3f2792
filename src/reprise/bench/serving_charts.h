#pragma once

#include <vector>

#include "reprise/bench/chart.h"
#include "reprise/bench/load_generator.h"

namespace reprise::bench {

/// Charts of one run: the distributions of its latencies, and the run over time.
[[nodiscard]] std::vector<Chart> serving_charts(const LoadResult& result);

}  // namespace reprise::bench
