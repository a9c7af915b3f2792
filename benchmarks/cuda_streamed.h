#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// The products of a step of one and of eight requests, of the 0.5B, 1B and 8B shapes: by the usual
/// kernels, and by those whose weights arrive by bulk copies ("streamed"), with tiles of 8 and of
/// 16 rows of the weight. Each product runs many times in one graph, with weights that come from
/// memory. Begins no shape that might not end in `seconds`.
void measure_streamed_products(const Gpu& gpu, double seconds, RowLog& log);

}  // namespace reprise::benchmark
