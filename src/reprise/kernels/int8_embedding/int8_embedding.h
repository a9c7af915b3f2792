#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Rows of a table in int8 panels: code * scale in float32, rounded once. A row whose id is outside
/// of the table becomes zeros.
bool launch_int8_embedding(device::Stream& stream,
                           const KernelTable& kernels,
                           const Tensor& ids,    // int32 [num_tokens]
                           const Tensor& table,  // i8_panels [vocab_size, hidden + kInt8TailBytes]
                           const Tensor& out);   // [num_tokens, hidden], dense

}  // namespace reprise::kernels
