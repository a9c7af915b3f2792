#pragma once

#include "benchmarks/cuda_model.h"
#include "benchmarks/row_log.h"

namespace reprise::benchmark {

/// Attention of decoding and of a prompt, large products, and the update of a graph.
void measure_parts(const Gpu& gpu, RowLog& log);

/// Attention of decoding and of prompts by the project's own kernels and by those of FlashInfer, if
/// the plug-in has them.
void measure_attention(const Gpu& gpu, RowLog& log);

/// The time of one launch of the sampler over a large vocabulary, by parameters and rows.
void measure_sampling(const Gpu& gpu, RowLog& log);

}  // namespace reprise::benchmark
