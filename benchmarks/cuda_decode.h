#pragma once

#include <chrono>

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// The smallest number of bytes that one decoding step reads: each weight once, and the keys and
/// values of each request's context. The table of an embedding counts only if it is also the head:
/// otherwise a step reads only a few of its rows.
[[nodiscard]] double bytes_of_decode_step(const weights::ModelConfig& config,
                                          int32_t requests,
                                          int32_t context);

/// Decoding by mode and number of requests, with programmatic dependent launch and without, and a
/// prefill. The most important figures come first; rounds are repeated while `seconds` last.
void measure_model(const Gpu& gpu, const char* config, double seconds, RowLog& log);

/// Measures only decoding, with programmatic dependent launch and without.
void measure_launch(const Gpu& gpu, const char* config, RowLog& log);

}  // namespace reprise::benchmark
