#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// Latent attention, and the products of heads around it, by the kernels on the tensor cores and by
/// the plain ones.
void measure_latents(const Gpu& gpu, RowLog& log);

}  // namespace reprise::benchmark
