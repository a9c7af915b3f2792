#pragma once

#include "benchmarks/cuda_model.h"
#include "reprise/base/json.h"

namespace reprise::benchmark {

/// Runs the load of a serving benchmark on the engine itself, without a server: 100 requests with
/// 230 input and 215 output tokens on average, which arrive at random, 20 per second. Measures
/// PIECEWISE, FULL and FULL_AND_PIECEWISE in two rounds. The figures do not include a server's work
/// (HTTP, tokenizing, text). Times are in milliseconds, with the names of `bench serve`.
[[nodiscard]] Json measure_serving(const Gpu& gpu, const char* config);

}  // namespace reprise::benchmark
