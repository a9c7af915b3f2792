#include "reprise/kernels/rope/rope.h"

#include "reprise/base/assert.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/op_run.h"
#include "reprise/kernels/rope/rope_arguments.h"

namespace reprise::kernels {
namespace {

RopeSide rope_side(const Tensor& x, const Tensor& out) {
  require_dense_rows(x, "rope");
  REPRISE_ASSERT(out.is_dense(), "rope: results must be dense");
  return {.x = x.data(),
          .out = out.data(),
          .heads = x.size(1),
          .token_stride = x.stride(0),
          .head_stride = x.stride(1)};
}

}  // namespace

bool launch_rope(device::Stream& stream,
                 const KernelTable& kernels,
                 const Tensor& q,
                 const Tensor& k,
                 const Tensor& positions,
                 const Tensor& cos_sin,
                 const Tensor& q_out,
                 const Tensor& k_out) {
  require_dense_rows(cos_sin, "rope");
  REPRISE_ASSERT(positions.is_dense(), "rope: positions must be dense");
  const int64_t num_tokens = q.size(0);
  const int64_t head_dim = q.size(2);
  const int64_t elements_per_token = max_of(1, (q.size(1) + k.size(1)) * head_dim);
  const RopeArguments arguments = {
      .q = rope_side(q, q_out),
      .k = rope_side(k, k_out),
      .positions = positions.data_as<int32_t>(),
      .cos_sin = cos_sin.data_as<float>(),
      .max_position = cos_sin.size(0),
      .table_stride = cos_sin.stride(0),
      .num_tokens = num_tokens,
      .head_dim = head_dim,
      .tokens_per_block = max_of(1, kElementsPerBlock / elements_per_token),
  };
  return launch(
      stream,
      kernel_for(kernels.rope, q.dtype()),
      static_cast<uint32_t>(ceil_div(num_tokens, arguments.tokens_per_block)),
      arguments,
      std::array{
          writes(q_out), writes(k_out), reads(q), reads(k), reads(positions), reads(cos_sin)});
}

bool launch_rope(const OpRun& run) {
  const auto in = run.operands<OpCode::rope>();
  return launch_rope(run.stream,
                     run.kernels,
                     in["q"],
                     in["k"],
                     in["positions"],
                     in["cos_sin"],
                     run.out[0],
                     run.out[1]);
}

}  // namespace reprise::kernels
