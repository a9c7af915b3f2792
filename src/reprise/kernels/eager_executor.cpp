#include "reprise/kernels/eager_executor.h"

#include <numeric>
#include <utility>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.h"
#include "reprise/kernels/gather_rows/gather_rows.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/lm_head/lm_head.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/rope/rope.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/view.h"

namespace reprise::kernels {
void EagerExecutor::execute(const OpCall& call,
                            std::span<const Tensor> inputs,
                            std::span<Tensor> outputs) {
  std::array<TensorType, kMaxOpOutputs> types;
  const size_t num_outputs = infer_output_types(call, inputs, types);
  REPRISE_ASSERT(outputs.size() == num_outputs,
                 "{} has {} results, not {}",
                 op_name(call.code),
                 num_outputs,
                 outputs.size());
  ++num_ops_[static_cast<size_t>(call.code)];
  if (is_view(call.code)) {
    outputs[0] = make_view(call, inputs[0]);
    return;
  }
  for (size_t i = 0; i < num_outputs; ++i) outputs[i] = allocate(types[i]);
  if (run(call, inputs, outputs)) ++num_launches_[static_cast<size_t>(call.code)];
}

uint64_t EagerExecutor::num_ops() const noexcept {
  return std::accumulate(num_ops_.begin(), num_ops_.end(), uint64_t{0});
}

uint64_t EagerExecutor::num_launches() const noexcept {
  return std::accumulate(num_launches_.begin(), num_launches_.end(), uint64_t{0});
}

Tensor EagerExecutor::allocate(const TensorType& type) {
  return Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), *this);
}

bool EagerExecutor::run(const OpCall& call, std::span<const Tensor> in, std::span<Tensor> out) {
  switch (call.code) {
    case OpCode::empty:
    case OpCode::slice:
    case OpCode::unflatten:
    case OpCode::flatten:
      return false;
    case OpCode::embedding:
      return launch_gather_rows(*stream_, *kernels_, in[1], in[0], out[0]);
    case OpCode::gather_rows:
      return launch_gather_rows(*stream_, *kernels_, in[0], in[1], out[0]);
    case OpCode::rms_norm:
      return launch_rms_norm(*stream_, *kernels_, in[0], in[1], call.attributes.epsilon, out[0]);
    case OpCode::add:
      return launch_add(*stream_, *kernels_, in[0], in[1], out[0]);
    case OpCode::fused_add_rms_norm:
      return launch_fused_add_rms_norm(
          *stream_, *kernels_, in[0], in[1], in[2], call.attributes.epsilon, out[0], out[1]);
    case OpCode::silu_and_mul:
      return launch_silu_and_mul(*stream_, *kernels_, in[0], out[0]);
    case OpCode::linear:
      return launch_linear(*stream_, *kernels_, in[0], in[1], in[2], out[0]);
    case OpCode::lm_head:
      return launch_lm_head(*stream_, *kernels_, in[0], in[1], in[2], out[0]);
    case OpCode::rope:
      return launch_rope(*stream_, *kernels_, in[0], in[1], in[2], in[3], out[0], out[1]);
    case OpCode::kv_write:
      return launch_kv_write(*stream_, *kernels_, in[0], in[1], in[2], in[3], in[4]);
    case OpCode::attention:
      return launch_attention(*stream_,
                              *kernels_,
                              {.q = in[0],
                               .key_cache = in[1],
                               .value_cache = in[2],
                               .query_start_loc = in[3],
                               .seq_lens = in[4],
                               .block_table = in[5],
                               .out = in[6],
                               .scale = call.attributes.scale,
                               .sliding_window = call.attributes.sliding_window});
  }
  return false;
}

}  // namespace reprise::kernels
