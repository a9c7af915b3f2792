#pragma once

#include <span>

#include "reprise/device/device.h"
#include "reprise/kernels/row_group/row_group_arguments.h"
#include "reprise/tensor/op.h"

namespace reprise::kernels {

/// The number of rows of a block, from the number of elements in a row of the widest result.
using RowsPerBlock = int64_t (*)(int64_t elements_per_row);
[[nodiscard]] int64_t rows_per_block_on_cpu(int64_t elements_per_row);

/// One launch of generated code over the rows of the group's results.
/// \pre at most kMaxRowGroupOperands operands and results together, with the types of the code
bool launch_row_group(device::Stream& stream,
                      const RowGroup& group,
                      std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs,
                      RowsPerBlock rows_per_block = rows_per_block_on_cpu);

}  // namespace reprise::kernels
