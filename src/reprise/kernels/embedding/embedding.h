#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Row t of out is row ids[t] of the table, as numbers, from any layout that has kernels for that:
/// all but float panels. An id outside of the table gives zeros.
bool launch_embedding(device::Stream& stream,
                      const KernelTable& kernels,
                      const Tensor& ids,    // int32[num_tokens]
                      const Tensor& table,  // [vocab_size, hidden_size]
                      const Tensor& out);   // [num_tokens, hidden_size]

}  // namespace reprise::kernels
