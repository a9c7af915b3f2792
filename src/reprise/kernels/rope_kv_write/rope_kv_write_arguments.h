#pragma once

#include <cstdint>

#include "reprise/kernels/kv_write/kv_write_arguments.h"

namespace reprise::kernels {

/// Norms, rotation and destination of the heads of q, k and v.
struct RopeAndCache {
  const int32_t* positions;     // [num_tokens]
  const float* cos_sin;         // [max_position, head_dim], rows table_stride apart
  const int32_t* slot_mapping;  // [num_tokens]; negative or beyond the cache = not written
  const void* q_norm;           // [head_dim], or nullptr
  const void* k_norm;           // like q_norm
  void* q_out;                  // [num_tokens, heads, head_dim], dense
  void* key_cache;              // [num_blocks, kv_heads, block_size, row of `rows`], dense
  void* value_cache;            // like key_cache
  int64_t max_position;
  int64_t table_stride;  // elements
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t block_size;
  int64_t num_slots;  // num_blocks * block_size
  CacheRows rows;
  float epsilon;
};

/// The heads of q, of k or of v.
struct StridedHeads {
  const void* x;         // [num_tokens, heads, head_dim]
  int64_t token_stride;  // elements
  int64_t head_stride;
};

struct alignas(16) RopeKvWriteArguments {
  RopeAndCache to;
  StridedHeads q;
  StridedHeads k;
  StridedHeads v;
  int64_t num_tokens;
  int64_t tokens_per_block;
};

/// A head that goes to a cache of eight bits is kept on the stack.
inline constexpr int kMaxQuantizedHeadDim = 512;

}  // namespace reprise::kernels
