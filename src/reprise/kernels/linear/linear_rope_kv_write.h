#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Whether launch_linear_rope_kv_write supports such heads and such a weight: up to 256 elements of
/// a head, and whole panels of a weight in panels, whose layout takes x as it is.
[[nodiscard]] bool supports_linear_rope_kv_write(int64_t head_dim, const WeightLayout& weight);

/// launch_rope_kv_write of the heads of linear(x, weight, bias), with the bits of the two launches
/// one after the other. Only q and the rows of the caches are stored; the product is not. \throws
/// InvalidArgument for a head_dim that is not supported
bool launch_linear_rope_kv_write(device::Stream& stream,
                                 const KernelTable& kernels,
                                 const Tensor& x,  // [num_tokens, in_features], rows may be strided
                                 const Tensor& weight,  // [heads of q | of k | of v, in_features]
                                 const Tensor& bias,    // [heads of q | of k | of v] or undefined
                                 const RopeAndCacheCall& call);

}  // namespace reprise::kernels
