#pragma once

#include "benchmarks/cuda_model.h"

namespace reprise::benchmark {

/// Floating-point operations per second of the fastest large product in bfloat16: those of an 8B
/// model's 4,096-token prefill, as the engine multiplies them.
[[nodiscard]] double gemm_peak(const Gpu& gpu);

}  // namespace reprise::benchmark
