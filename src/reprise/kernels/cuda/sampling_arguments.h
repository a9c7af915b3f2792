#pragma once

#include <cstdint>

#include "reprise/kernels/sampling_row.h"

namespace reprise::kernels::cuda {

/// Each row has one block.
struct alignas(16) CudaSamplingArguments {
  float* logits;            // [num_rows, vocab_size], dense
  const SamplingRow* rows;  // [blocks]
  const LogitAdjustment* adjustments;
  int32_t* tokens;  // [blocks]
  int64_t vocab_size;
};

/// The lower bits of a key are the token id.
inline constexpr int kTokenBits = 24;

}  // namespace reprise::kernels::cuda
