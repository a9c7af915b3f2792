#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// What choosing the kernels of products by measurement gains: the candidates of the 0.5B, 1B and
/// 8B shapes, each choice that differs from its rule, and steps with the rules and with the
/// choices, beside what was predicted. Begins no shape that might not end in `seconds`.
void measure_tuning(const Gpu& gpu, double seconds, RowLog& log);

}  // namespace reprise::benchmark
