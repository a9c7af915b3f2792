#include "reprise/kernels/eager_executor.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "reprise/kernels/add/add.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/fused_add_rms_norm/fused_add_rms_norm.h"
#include "reprise/kernels/gather_rows/gather_rows.h"
#include "reprise/kernels/kv_write/kv_write.h"
#include "reprise/kernels/linear/linear.h"
#include "reprise/kernels/linear_add/linear_add.h"
#include "reprise/kernels/linear_rope_kv_write/linear_rope_kv_write.h"
#include "reprise/kernels/linear_silu_and_mul/linear_silu_and_mul.h"
#include "reprise/kernels/lm_head/lm_head.h"
#include "reprise/kernels/quantize/quantize.h"
#include "reprise/kernels/rms_norm/rms_norm.h"
#include "reprise/kernels/rope/rope.h"
#include "reprise/kernels/rope_kv_write/rope_kv_write.h"
#include "reprise/kernels/row_group/row_group.h"
#include "reprise/kernels/scaled_linear/scaled_linear.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/view.h"

namespace reprise::kernels {
namespace {

AttentionCall attention_call(const OpCall& call,
                             const AttentionRoutine& routine,
                             std::span<const Tensor> in,
                             const Tensor& out) {
  return {.q = in[0],
          .key_cache = in[1],
          .value_cache = in[2],
          .query_start_loc = in[3],
          .seq_lens = in[4],
          .block_table = in[5],
          .out = out,
          .scale = call.attributes.scale,
          .sliding_window = call.attributes.sliding_window,
          .routine = &routine};
}

AttentionCall quantised_attention_call(const OpCall& call,
                                       const AttentionRoutine& routine,
                                       std::span<const Tensor> in) {
  AttentionCall quantised = attention_call(call, routine, in, in[7]);
  quantised.out_scale = &in[6];
  return quantised;
}

// Operands 3 to 9 of rope_kv_write and of linear_rope_kv_write.
RopeAndCacheCall rope_and_cache_call(const OpCall& call,
                                     std::span<const Tensor> in,
                                     const Tensor& q_out) {
  return {.positions = in[3],
          .cos_sin = in[4],
          .key_cache = in[5],
          .value_cache = in[6],
          .slot_mapping = in[7],
          .q_norm = in[8],
          .k_norm = in[9],
          .epsilon = call.attributes.epsilon,
          .q_out = q_out};
}

}  // namespace

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
  for (size_t i = 0; i < num_outputs; ++i) {
    if (!outputs[i].defined()) outputs[i] = allocate(types[i]);
    REPRISE_ASSERT(outputs[i].type() == types[i] && outputs[i].is_dense(),
                   "{}: result {} needs dense memory of {}, not {}",
                   op_name(call.code),
                   i,
                   types[i].to_string(),
                   outputs[i].type().to_string());
  }
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
      return launch_attention(*stream_, *kernels_, attention_call(call, attention_, in, in[6]));
    case OpCode::row_group:
      return launch_row_group(*stream_, *call.attributes.row_group, in, out);
    case OpCode::custom:
      return run_custom(*call.attributes.custom, in, out);
    case OpCode::linear_add:
      return launch_linear_add(*stream_, *kernels_, in[0], in[1], in[2], in[3], out[0]);
    case OpCode::linear_silu_and_mul:
      return launch_linear_silu_and_mul(*stream_, *kernels_, in[0], in[1], in[2], out[0]);
    case OpCode::rope_kv_write:
      return launch_rope_kv_write(
          *stream_, *kernels_, in[0], in[1], in[2], rope_and_cache_call(call, in, out[0]));
    case OpCode::linear_rope_kv_write:
      return launch_linear_rope_kv_write(
          *stream_, *kernels_, in[0], in[1], in[2], rope_and_cache_call(call, in, out[0]));
    case OpCode::rms_norm_linear_silu_and_mul:
    case OpCode::rms_norm_linear_rope_kv_write:
    case OpCode::rms_norm_lm_head:
      return run_behind_norm(call, in, out);
    case OpCode::quantize_per_token:
      return launch_quantize_per_token(*stream_, *kernels_, in[0], out[0], out[1]);
    case OpCode::quantize_static:
      return launch_quantize_static(*stream_, *kernels_, in[0], in[1], out[0]);
    case OpCode::rms_norm_quant:
      return launch_rms_norm_quant(
          *stream_, *kernels_, in[0], in[1], call.attributes.epsilon, out[0], out[1]);
    case OpCode::fused_add_rms_norm_quant:
      return launch_fused_add_rms_norm_quant(*stream_,
                                             *kernels_,
                                             {.x = in[0],
                                              .residual = in[1],
                                              .weight = in[2],
                                              .epsilon = call.attributes.epsilon,
                                              .q = out[0],
                                              .scales = out[1],
                                              .sum = out[2]});
    case OpCode::silu_and_mul_quant:
      return launch_silu_and_mul_quant(*stream_, *kernels_, in[0], out[0], out[1]);
    case OpCode::scaled_linear:
      return launch_scaled_linear(*stream_,
                                  *kernels_,
                                  {.x = in[0],
                                   .scale = in[1],
                                   .weight = in[2],
                                   .weight_scale = in[3],
                                   .bias = in[4],
                                   .out = out[0]});
    case OpCode::attention_quant:
      return launch_attention(*stream_, *kernels_, quantised_attention_call(call, attention_, in));
    case OpCode::all_reduce:
    case OpCode::reduce_scatter:
    case OpCode::all_gather:
    case OpCode::fused_all_reduce_add_rms_norm:
    case OpCode::linear_reduce_scatter:
    case OpCode::all_gather_linear:
      throw InvalidArgument(
          fmt::format("{}: needs a communicator between {} ranks: this engine has one rank",
                      op_name(call.code),
                      call.attributes.ranks));
  }
  return false;
}

bool EagerExecutor::run_behind_norm(const OpCall& call,
                                    std::span<const Tensor> in,
                                    std::span<Tensor> out) {
  const Tensor normed = allocate(in[0].type());
  launch_rms_norm(*stream_, *kernels_, in[0], in.back(), call.attributes.epsilon, normed);
  std::vector<Tensor> inputs(in.begin(), in.end() - 1);
  inputs[0] = normed;
  return run({*op_after_norm(call.code), call.attributes, call.where}, inputs, out);
}

bool EagerExecutor::run_custom(const CustomOp& op,
                               std::span<const Tensor> in,
                               std::span<const Tensor> out) {
  if (!op.launch_cpu) {
    throw InvalidArgument(fmt::format(
        "custom op {} has no kernel for {}: register one", op.name, stream_->device().name()));
  }
  op.launch_cpu(*stream_, in, out);
  return true;
}

}  // namespace reprise::kernels
