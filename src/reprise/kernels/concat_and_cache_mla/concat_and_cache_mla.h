#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Writes [kv_c[t] | k_pe[t]] to slot slot_mapping[t] of the latent cache. A slot is block *
/// block_size + offset. Tokens whose slot is negative or beyond the cache are not written.
bool launch_concat_and_cache_mla(
    device::Stream& stream,
    const KernelTable& kernels,
    const Tensor& kv_c,           // [num_tokens, latent size], rows may be strided
    const Tensor& k_pe,           // [num_tokens, 1, rope size], rows may be strided
    const Tensor& kv_cache,       // [num_blocks, 1, block_size, latent size + rope size]
    const Tensor& slot_mapping);  // int32[num_tokens]

}  // namespace reprise::kernels
