#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Logits of the rows below num_rows[0], as launch_block_linear computes them in float32. The other
/// rows of out keep their content.
bool launch_block_lm_head(device::Stream& stream,
                          const KernelTable& kernels,
                          const Tensor& x,         // int8 [num_rows at most, 40 * B], dense
                          const Tensor& weight,    // int8 [vocab_size, W], see block_panels.h
                          const Tensor& num_rows,  // int32[1]
                          const Tensor& out);      // float32 [.., vocab_size]

}  // namespace reprise::kernels
