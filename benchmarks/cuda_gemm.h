#pragma once

#include <optional>

#include "benchmarks/cuda_model.h"

namespace reprise::benchmark {

/// Floating-point operations per second of the fastest large matrix product in bfloat16, measured
/// with the shapes of an 8B model's 4,096-token prefill and the engine's own matrix products.
[[nodiscard]] double gemm_peak(const Gpu& gpu);

/// Fills the tensor with random numbers, because chips multiply zeros faster. One block of numbers
/// repeats; its length is not a multiple of a row, so rows differ. Codes are bytes that are numbers
/// in float8 and, four of them, in float32.
void fill_at_random(device::Stream& stream, const Tensor& tensor);

/// Seconds of one matrix product whose activations and results are bfloat16, launched eagerly many
/// times. `codec`: the weight has codes of eight bits; nothing: it is bfloat16.
[[nodiscard]] double product_seconds(const Gpu& gpu,
                                     int64_t rows,
                                     int64_t columns,
                                     int64_t depth,
                                     std::optional<PanelFormat> codec = {});

}  // namespace reprise::benchmark
