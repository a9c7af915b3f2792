#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Row r of out is row r of y plus the product of row r of `shrunk` with the matrix of slot
/// slots[r], summed in float32 in the order of ranks and rounded once. If the slot is negative, it
/// is row r of y itself. The columns of module p end before ends[p], those of the last module at
/// the width; they use the p-th `rank` columns of `shrunk`. The grid depends only on the shapes.
/// out may be y.
bool launch_lora_expand(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& y,       // [num_tokens, width], rows may be strided
                        const Tensor& shrunk,  // float32[num_tokens, num_modules * rank]
                        const Tensor& b,       // [num_slots, rank, width]
                        const Tensor& ends,    // int32[num_modules], ascending, the last is width
                        const Tensor& slots,   // int32[>= num_tokens], each below num_slots
                        const Tensor& out);    // [num_tokens, width]

}  // namespace reprise::kernels
