#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Whether launch_linear_rope_kv_write has room for such a head: up to 256.
[[nodiscard]] bool supports_linear_rope_kv_write(int64_t head_dim);

/// launch_rope_kv_write of the heads of linear(x, weight, bias), with the bits that the two have
/// after each other; nothing of the product is stored but q and what goes into the caches.
/// \throws InvalidArgument for a head_dim that is not supported
bool launch_linear_rope_kv_write(device::Stream& stream,
                                 const KernelTable& kernels,
                                 const Tensor& x,  // [num_tokens, in_features], rows may be strided
                                 const Tensor& weight,  // [heads of q | of k | of v, in_features]
                                 const Tensor& bias,    // [heads of q | of k | of v] or undefined
                                 const RopeAndCacheCall& call);

}  // namespace reprise::kernels
