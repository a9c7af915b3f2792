#include "reprise/kernels/row_group/row_group.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

RowGroupOperand operand_of(const Tensor& tensor) {
  require_dense_rows(tensor, "row_group");
  const int rank = tensor.rank();
  return {.data = tensor.data(),
          .rows = rank > 0 ? tensor.size(0) : 1,
          .row_stride = rank > 0 ? tensor.stride(0) : 0,
          .inner_stride = rank == 3 ? tensor.stride(1) : 0};
}

}  // namespace

int64_t rows_per_block_on_cpu(int64_t elements_per_row) {
  return max_of(1, kElementsPerBlock / elements_per_row);
}

bool launch_row_group(device::Stream& stream,
                      const RowGroup& group,
                      std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs,
                      RowsPerBlock rows_per_block) {
  const size_t num_operands = inputs.size() + outputs.size();
  REPRISE_ASSERT(num_operands <= kMaxRowGroupOperands, "{} operands in one group", num_operands);
  RowGroupArguments arguments{
      .rows = inputs[group.rows_of].size(0), .rows_per_block = 1, .operands = {}};
  std::array<device::BufferUse, kMaxRowGroupOperands> uses;
  int64_t elements_per_row = 1;
  for (size_t i = 0; i < num_operands; ++i) {
    const bool is_result = i >= inputs.size();
    const Tensor& tensor = is_result ? outputs[i - inputs.size()] : inputs[i];
    arguments.operands[i] = operand_of(tensor);
    uses[i] = is_result ? writes(tensor) : reads(tensor);
    if (is_result && arguments.rows > 0) {
      elements_per_row = max_of(elements_per_row, tensor.num_elements() / arguments.rows);
    }
  }
  arguments.rows_per_block = rows_per_block(elements_per_row);
  return launch(stream,
                group.kernel,
                static_cast<uint32_t>(ceil_div(arguments.rows, arguments.rows_per_block)),
                arguments,
                uses);
}

bool launch_row_group(const OpRun& run) {
  return launch_row_group(run.stream, *run.call.attributes.row_group, run.in, run.out);
}

}  // namespace reprise::kernels
