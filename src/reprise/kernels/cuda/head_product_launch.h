#pragma once

#include "reprise/kernels/op_run.h"

namespace reprise::kernels::cuda {

/// Launches head_linear: on the tensor cores where rows are aligned to 16 bytes and have elements
/// of 16 bits, otherwise with a warp for each element of the result.
bool launch_head_product(const OpRun& run);

}  // namespace reprise::kernels::cuda
