#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/kv_write/kv_write_arguments.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The scales of caches of eight bits whose rows have no scale of their own.
struct CacheScales {
  float k = 1.0F;
  float v = 1.0F;
};

/// How the rows of `cache` are stored for keys and values of type `model`.
[[nodiscard]] CacheRows cache_rows(const Tensor& cache,
                                   DType model,
                                   int64_t head_dim,
                                   const CacheScales& scales);

/// Writes each token's key and value into its slot of the caches. The slots of one call must
/// differ. Slots that are negative or beyond the cache are skipped.
///
/// Caches of eight bits: a float8 element is saturate(x / scale). A row with a scale of its own is
/// quantised as by launch_quantize_per_token: its scale is the largest magnitude of the row divided
/// by the largest code. Source: vLLM's fp8 and int8_per_token_head caches; int8 differs in
/// rounding to nearest even and in the floor of the scale (1e-10 / 127, there 1e-6).
bool launch_kv_write(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& k,             // [num_tokens, kv_heads, head_dim], strided
                     const Tensor& v,             // like k
                     const Tensor& key_cache,     // [num_blocks, kv_heads, block_size, head_dim]
                     const Tensor& value_cache,   // like key_cache
                     const Tensor& slot_mapping,  // int32[num_tokens]
                     const CacheScales& scales = {});

}  // namespace reprise::kernels
