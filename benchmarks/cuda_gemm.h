#pragma once

#include "benchmarks/cuda_model.h"

namespace reprise::benchmark {

/// Floating-point operations per second of the fastest large matrix product in bfloat16, measured
/// with the shapes of an 8B model's 4,096-token prefill and the engine's own matrix products.
[[nodiscard]] double gemm_peak(const Gpu& gpu);

}  // namespace reprise::benchmark
