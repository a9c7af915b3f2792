#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// The products of a step of one and of eight requests, of the 0.5B, 1B and 8B shapes in bfloat16,
/// of Qwen2.5-7B in GPTQ's four bits and of the 8B shape in float8, and the experts of a layer of
/// Qwen3-30B-A3B with one and 64 requests: by the usual kernels, and by those whose weights arrive
/// by bulk copies ("streamed"), in bfloat16 with tiles of 8 and of 16 rows of the weight. Each
/// product runs many times in one graph, with weights that come from memory. Begins no shape that
/// might not end in `seconds`.
void measure_streamed_products(const Gpu& gpu, double seconds, RowLog& log);

}  // namespace reprise::benchmark
