#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Row r of out is the product of row r of x with the matrix of slot slots[r], in float32; zeros if
/// the slot is negative. The grid depends only on the shapes, and the bits of a row only on that
/// row and its adapter.
bool launch_lora_shrink(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,      // [num_tokens, depth], rows may be strided
                        const Tensor& a,      // [num_slots, columns, depth]
                        const Tensor& slots,  // int32[>= num_tokens], each below num_slots
                        const Tensor& out);   // float32[num_tokens, columns]

}  // namespace reprise::kernels
