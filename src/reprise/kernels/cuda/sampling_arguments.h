#pragma once

#include <cstdint>

#include "reprise/kernels/sampling_row.h"

namespace reprise::kernels::cuda {

/// A block for each of the rows.
struct alignas(16) CudaSamplingArguments {
  float* logits;            // [num_rows, vocab_size], dense
  const SamplingRow* rows;  // [blocks]
  const LogitAdjustment* adjustments;
  int32_t* tokens;  // [blocks]
  int64_t vocab_size;
};

/// Token ids take the lower bits of a key.
inline constexpr int kTokenBits = 24;

}  // namespace reprise::kernels::cuda
