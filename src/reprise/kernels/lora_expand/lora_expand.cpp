#include "reprise/kernels/lora_expand/lora_expand.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/lora_expand/lora_expand_arguments.h"
#include "reprise/kernels/op_run.h"

namespace reprise::kernels {

bool launch_lora_expand(device::Stream& stream,
                        const KernelTable& kernels,
                        const Tensor& y,
                        const Tensor& shrunk,
                        const Tensor& b,
                        const Tensor& ends,
                        const Tensor& slots,
                        const Tensor& out) {
  require_dense_rows(y, "lora_expand");
  REPRISE_ASSERT(shrunk.is_dense() && b.is_dense() && ends.is_dense() && slots.is_dense() &&
                     out.is_dense() && slots.size(0) >= y.size(0),
                 "lora_expand: all but y must be dense, with a slot for each of {} rows",
                 y.size(0));
  const LoraExpandArguments arguments = {
      .y = y.data(),
      .shrunk = shrunk.data_as<float>(),
      .b = b.data(),
      .ends = ends.data_as<int32_t>(),
      .slots = slots.data_as<int32_t>(),
      .out = out.data(),
      .tiles = row_tiles(out.size(0), out.size(1), RowCut::columns),
      .y_stride = y.stride(0),
      .modules = ends.size(0),
      .rank = b.size(1),
  };
  return launch(
      stream,
      kernel_for(kernels.lora_expand, y.dtype()),
      num_blocks(arguments.tiles),
      arguments,
      std::array{writes(out), reads(y), reads(shrunk), reads(b), reads(ends), reads(slots)});
}

bool launch_lora_expand(const OpRun& run) {
  const auto in = run.operands<OpCode::lora_expand>();
  return launch_lora_expand(
      run.stream, run.kernels, in["y"], in["shrunk"], in["b"], in["ends"], in["slots"], run.out[0]);
}

}  // namespace reprise::kernels
