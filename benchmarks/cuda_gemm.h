#pragma once

#include <optional>

#include "benchmarks/cuda_model.h"

namespace reprise::benchmark {

/// Floating-point operations per second of the fastest large matrix product in bfloat16, measured
/// with the shapes of an 8B model's 4,096-token prefill and the engine's own matrix products.
[[nodiscard]] double gemm_peak(const Gpu& gpu);

/// Seconds of one matrix product whose activations and results are bfloat16, launched eagerly many
/// times. `codec`: the weight has codes of eight bits; nothing: it is bfloat16.
[[nodiscard]] double product_seconds(const Gpu& gpu,
                                     int64_t rows,
                                     int64_t columns,
                                     int64_t depth,
                                     std::optional<PanelFormat> codec = {});

}  // namespace reprise::benchmark
