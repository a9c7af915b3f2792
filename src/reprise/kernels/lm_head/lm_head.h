#pragma once

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// Float32 logits of the first num_rows[0] rows; the other rows are not written. num_rows is read
/// when the work runs. The sums are those of launch_linear.
bool launch_lm_head(device::Stream& stream,
                    const KernelTable& kernels,
                    const Tensor& x,         // [max_rows, hidden_size], rows may be strided
                    const Tensor& weight,    // [vocab_size, hidden_size]
                    const Tensor& num_rows,  // int32[1]
                    const Tensor& out);      // float32[max_rows, vocab_size]

/// Oracle, in double.
void lm_head_ref(const Tensor& x, const Tensor& weight, const Tensor& num_rows, const Tensor& out);

}  // namespace reprise::kernels
