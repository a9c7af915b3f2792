#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"
#include "reprise/base/json.h"

namespace reprise::benchmark {

/// The load of a serving benchmark on the engine itself, without a server: 100 requests of 230
/// tokens in and 215 out on average that arrive at random, 20 a second, for PIECEWISE, FULL and
/// FULL_AND_PIECEWISE, two rounds. What a server adds (HTTP, tokenizing, text) is not in these
/// figures. Times in milliseconds, as `bench serve` names them.
void measure_serving(const Gpu& gpu, const char* config, RowLog& log);

}  // namespace reprise::benchmark
