#pragma once

#include <cstdint>

namespace reprise::kernels {

/// One of the two tensors that rope rotates.
struct RopeSide {
  const void* x;  // [num_tokens, heads, head_dim]
  void* out;      // the same, dense
  int64_t heads;
  int64_t token_stride;  // elements
  int64_t head_stride;
};

struct alignas(16) RopeArguments {
  RopeSide q;
  RopeSide k;
  const int32_t* positions;
  const float* cos_sin;  // [max_position, head_dim], rows table_stride apart
  int64_t max_position;
  int64_t table_stride;
  int64_t num_tokens;
  int64_t head_dim;
  int64_t tokens_per_block;
};

}  // namespace reprise::kernels
