#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Copies each token's key and value into its slot of the caches. The slots of one call must
/// differ. Slots that are negative or beyond the cache are skipped.
bool launch_kv_write(device::Stream& stream,
                     const KernelTable& kernels,
                     const Tensor& k,              // [num_tokens, kv_heads, head_dim], strided
                     const Tensor& v,              // like k
                     const Tensor& key_cache,      // [num_blocks, kv_heads, block_size, head_dim]
                     const Tensor& value_cache,    // like key_cache
                     const Tensor& slot_mapping);  // int32[num_tokens]

/// Oracle.
void kv_write_ref(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping);

}  // namespace reprise::kernels
