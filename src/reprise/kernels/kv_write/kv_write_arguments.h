#pragma once

#include <cstdint>

namespace reprise::kernels {

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

}  // namespace reprise::kernels
