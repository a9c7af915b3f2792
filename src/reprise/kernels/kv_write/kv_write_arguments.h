#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The type of a cache's elements: that of k and v, or eight bits.
enum class CacheType : int32_t { like_model, f8e4m3, f8e5m2, i8 };

/// How the rows of the caches are stored. An element of a row of eight bits is code * scale.
struct CacheRows {
  CacheType type;
  int32_t has_row_scales;  // 1: after its codes, a row has a float32 scale of its own
  int64_t row_bytes;
  float k_scale;  // for rows without a scale of their own
  float v_scale;
};

/// Sizes and strides are in bytes, so types do not matter.
struct alignas(16) KvWriteArguments {
  const void* k;  // [num_tokens, kv_heads, head_bytes]
  const void* v;
  void* key_cache;  // [num_blocks, kv_heads, block_size, head_bytes], dense
  void* value_cache;
  const int32_t* slot_mapping;  // [num_tokens]; negative = skip
  int64_t k_token_stride;
  int64_t k_head_stride;
  int64_t v_token_stride;
  int64_t v_head_stride;
  int64_t num_tokens;
  int64_t kv_heads;
  int64_t head_bytes;
  int64_t block_size;
  int64_t num_slots;  // num_blocks * block_size
  int64_t tokens_per_block;
};

/// Rows of k and v that become rows of eight bits.
struct alignas(16) KvWriteQuantArguments {
  const void* k;  // [num_tokens, kv_heads, head_dim]
  const void* v;
  void* key_cache;  // [num_blocks, kv_heads, block_size, rows.row_bytes], dense
  void* value_cache;
  const int32_t* slot_mapping;  // as above
  int64_t k_token_stride;       // elements
  int64_t k_head_stride;
  int64_t v_token_stride;
  int64_t v_head_stride;
  int64_t num_tokens;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t block_size;
  int64_t num_slots;
  int64_t tokens_per_block;
  CacheRows rows;
};

}  // namespace reprise::kernels
