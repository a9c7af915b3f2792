#pragma once

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/packed_call.h"
#include "reprise/kernels/device_executor.h"

namespace reprise::kernels::cuda {

/// With fewer rows the project's own kernels multiply codes, which costs less than expanding them.
inline constexpr int64_t kFewestExpandedRows = 65;
/// The largest piece of a weight that is expanded at once.
inline constexpr int64_t kExpandedBytes = int64_t{64} << 20;

/// out = x weight^T + bias for many rows: the weight becomes numbers of its type in pieces of
/// `piece_bytes`, and so do rows of codes; the library multiplies them. All of this memory is of
/// the executor's pool. Returns false for int8, which has no use of it (eight_bit_product.h), and
/// where the library does not compute the product; then `out` has no meaning. \pre the call has no
/// residual; `out` has the rows of the weight as columns
bool multiply_expanded(DeviceExecutor& executor,
                       GemmLibrary& library,
                       const PackedCall& call,
                       int64_t piece_bytes = kExpandedBytes);

}  // namespace reprise::kernels::cuda
