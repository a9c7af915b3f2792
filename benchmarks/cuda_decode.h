#pragma once

#include <chrono>

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// The bytes that one decoding step reads at least: each weight once, without the table of an
/// embedding that is not also the head, of which a step reads a few rows; and the keys and values
/// of each request's context.
[[nodiscard]] double bytes_of_decode_step(const weights::ModelConfig& config,
                                          int32_t requests,
                                          int32_t context);

/// Decoding by mode and number of requests, with programmatic dependent launch and without, and a
/// prefill. The most important figures come first; rounds are repeated while `seconds` last.
void measure_model(const Gpu& gpu, const char* config, double seconds, RowLog& log);

/// Decoding with programmatic dependent launch and without, alone.
void measure_launch(const Gpu& gpu, const char* config, RowLog& log);

}  // namespace reprise::benchmark
