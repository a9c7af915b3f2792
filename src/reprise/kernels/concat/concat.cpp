#include "reprise/kernels/concat/concat.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/concat/concat_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/reference.h"

namespace reprise::kernels {

bool launch_concat(device::Stream& stream,
                   const KernelTable& kernels,
                   const Tensor& a,
                   const Tensor& b,
                   const Tensor& out) {
  require_dense_rows(a, "concat");
  require_dense_rows(b, "concat");
  REPRISE_ASSERT(out.is_dense(), "concat: out must be dense");
  const ConcatArguments arguments = {
      .a = a.data(),
      .b = b.data(),
      .out = out.data(),
      .a_layout = row_layout(a),
      .b_layout = row_layout(b),
      .tiles = row_tiles(num_rows(out), out.size(-1), RowCut::whole_rows),
      .a_width = a.size(-1),
  };
  return launch(stream,
                kernel_for(kernels.concat, a.dtype()),
                num_blocks(arguments.tiles),
                arguments,
                std::array{writes(out), reads(a), reads(b)});
}

void concat_ref(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t a_width = a.size(2);
  for (int64_t token = 0; token < out.size(0); ++token) {
    for (int64_t head = 0; head < out.size(1); ++head) {
      for (int64_t i = 0; i < out.size(2); ++i) {
        const double value =
            i < a_width ? element(a, token, head, i) : element(b, token, head, i - a_width);
        set_element(out, value, token, head, i);
      }
    }
  }
}

bool launch_concat(const OpRun& run) {
  const auto in = run.operands<OpCode::concat>();
  return launch_concat(run.stream, run.kernels, in["a"], in["b"], run.out[0]);
}

}  // namespace reprise::kernels
