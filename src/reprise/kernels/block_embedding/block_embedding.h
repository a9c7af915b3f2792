#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Rows of a packed table, as numbers. A row whose id is outside of the table becomes zeros.
bool launch_block_embedding(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& ids,     // int32 [num_tokens]
                            const Tensor& weight,  // int8 [vocab_size, W], see block_panels.h
                            const Tensor& out);    // [num_tokens, hidden_size], dense

}  // namespace reprise::kernels
