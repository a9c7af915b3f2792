#pragma once

#include <cstdint>

namespace reprise::kernels {

struct alignas(16) ConcatAndCacheMlaArguments {
  const void* kv_c;             // [num_tokens, latent_size]
  const void* k_pe;             // [num_tokens, rope_size]
  void* kv_cache;               // [num_slots, latent_size + rope_size], dense
  const int32_t* slot_mapping;  // [num_tokens]
  int64_t kv_c_stride;          // elements
  int64_t k_pe_stride;
  int64_t num_tokens;
  int64_t latent_size;
  int64_t rope_size;
  int64_t num_slots;
  int64_t tokens_per_block;
};

}  // namespace reprise::kernels
