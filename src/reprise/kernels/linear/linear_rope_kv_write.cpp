#include "reprise/kernels/linear/linear_rope_kv_write.h"

#include <fmt/format.h>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/device_executor.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/linear/linear_arguments.h"
#include "reprise/kernels/op_run.h"
#include "reprise/tensor/weight_layout.h"

namespace reprise::kernels {

bool supports_linear_rope_kv_write(int64_t head_dim, const WeightLayout& weight) {
  const bool has_whole_heads = weight.is_rows() || head_dim % kPanelColumns == 0;
  return head_dim <= kMaxLinearRopeHeadDim && has_whole_heads &&
         activation_form(weight.family) == ActivationForm::elements;
}

bool launch_linear_rope_kv_write(device::Stream& stream,
                                 const KernelTable& kernels,
                                 const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const RopeAndCacheCall& call) {
  const int64_t head_dim = call.q_out.size(2);
  if (!supports_linear_rope_kv_write(head_dim, weight.layout())) {
    throw InvalidArgument(fmt::format(
        "linear_rope_kv_write: the CPU kernels support a head_dim of at most {}, which is a "
        "multiple of {} for weights in panels; got {}; use linear and rope_kv_write",
        kMaxLinearRopeHeadDim,
        kPanelColumns,
        head_dim));
  }
  require_dense_rows(x, "linear_rope_kv_write");
  REPRISE_ASSERT(weight.is_dense(), "linear_rope_kv_write: the weight must be dense");
  const int64_t rows = x.size(0);
  LinearRopeKvWriteArguments arguments = {
      .product = {.x = x.data(),
                  .weight = weight.data(),
                  .bias = bias.data(),
                  .out = nullptr,
                  .num_rows = nullptr,
                  .x_stride = x.stride(0),
                  .rows = rows,
                  .columns = weight.size(0),
                  .depth = x.size(1),
                  .rows_per_block = kMaxLinearTileRows,
                  .columns_per_block = static_cast<int32_t>(head_dim)},
      .to = rope_and_cache(call),
  };
  set_weight_layout(weight, arguments.product);
  const int64_t num_heads = arguments.to.heads + 2 * arguments.to.kv_heads;
  return launch(stream,
                kernel_for(kernels.linear_rope_kv_write, x.dtype()),
                static_cast<uint32_t>(ceil_div(rows, kMaxLinearTileRows) * num_heads),
                arguments,
                std::array{writes(call.q_out),
                           writes(call.key_cache),
                           writes(call.value_cache),
                           reads(x),
                           reads(weight),
                           reads(bias),
                           reads(call.positions),
                           reads(call.cos_sin),
                           reads(call.slot_mapping),
                           reads(call.q_norm),
                           reads(call.k_norm)});
}

bool launch_linear_rope_kv_write(const OpRun& run) {
  const auto in = run.operands<OpCode::linear_rope_kv_write>();
  if (in["norm"].defined()) return launch_norm_apart(run);
  return launch_linear_rope_kv_write(run.stream,
                                     run.kernels,
                                     in["x"],
                                     in["weight"],
                                     in["bias"],
                                     rope_and_cache_call<OpCode::linear_rope_kv_write>(run));
}

}  // namespace reprise::kernels
