#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Rows of a table in panels. A row whose id is outside of the table becomes zeros.
bool launch_panel_embedding(device::Stream& stream,
                            const KernelTable& kernels,
                            const Tensor& ids,    // int32 [num_tokens]
                            const Tensor& table,  // bf16_panels [vocab_size, hidden_size]
                            const Tensor& out);   // bfloat16 [num_tokens, hidden_size], dense

}  // namespace reprise::kernels
