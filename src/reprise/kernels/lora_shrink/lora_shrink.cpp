#include "reprise/kernels/lora_shrink/lora_shrink.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/lora_shrink/lora_shrink_arguments.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {
namespace {

// The number is large enough that neighbouring rows with the same adapter share the reads of its
// matrix.
constexpr int32_t kLoraShrinkRows = 32;

}  // namespace

bool launch_lora_shrink(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& x,
                        const Tensor& a,
                        const Tensor& slots,
                        const Tensor& out) {
  require_dense_rows(x, "lora_shrink");
  REPRISE_ASSERT(a.is_dense() && slots.is_dense() && out.is_dense() && slots.size(0) >= x.size(0),
                 "lora_shrink: a, slots and out must be dense, with a slot for each of {} rows",
                 x.size(0));
  const LoraShrinkArguments arguments = {
      .x = x.data(),
      .a = a.data(),
      .slots = slots.data_as<int32_t>(),
      .out = out.data_as<float>(),
      .x_stride = x.stride(0),
      .rows = out.size(0),
      .columns = out.size(1),
      .depth = x.size(1),
      .rows_per_block = kLoraShrinkRows,
      .columns_per_block = kMaxLoraShrinkColumns,
  };
  const int64_t blocks = ceil_div(arguments.rows, arguments.rows_per_block) *
                         ceil_div(arguments.columns, arguments.columns_per_block);
  return launch(stream,
                kernel_for(kernels.lora_shrink, x.dtype()),
                static_cast<uint32_t>(blocks),
                arguments,
                std::array{writes(out), reads(x), reads(a), reads(slots)});
}

bool launch_lora_shrink(const OpRun& run) {
  const auto in = run.operands<OpCode::lora_shrink>();
  return launch_lora_shrink(run.stream, run.kernels, in["x"], in["a"], in["slots"], run.out[0]);
}

}  // namespace reprise::kernels
