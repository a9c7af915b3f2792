#pragma once

#include <cstdint>

#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm_arguments.h"
#include "reprise/kernels/rows.h"

namespace reprise::kernels::cuda {

/// The elements that one block computes, of a sum over ranks or of choices of experts: eight for
/// each thread.
inline constexpr int64_t kRankElements = 2048;

struct alignas(16) RankSumArguments {
  const void* parts;  // [num_ranks, count]
  void* out;          // [count]
  int64_t num_ranks;
  int64_t count;
};

/// The sum over the ranks, then that of the residual, then the norm.
struct alignas(16) RankSumNormArguments {
  const void* parts;  // [num_ranks, rows, width]
  int64_t num_ranks;
  /// `x` is not used. The residual may be a null pointer; `sum` is then the sum over the ranks.
  FusedAddRmsNormArguments norm;
};

/// The op local_experts.
struct alignas(16) RankExpertsArguments {
  const float* weights;
  const int32_t* experts;
  float* local_weights;
  int32_t* local_ids;
  int64_t begin;  // the rank's experts
  int64_t end;
  int64_t count;  // of choices
};

struct alignas(16) RankColumnsArguments {
  const void* parts;        // [num_ranks, rows of tiles, row_bytes]
  const int32_t* num_rows;  // of the result that are needed
  void* out;                // dense
  int64_t num_ranks;
  int64_t row_bytes;  // of a rank
  RowTiles tiles;     // of out, width in bytes
};

}  // namespace reprise::kernels::cuda
