#include "reprise/kernels/device_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reprise/base/error.h"
#include "reprise/tensor/view.h"

namespace reprise::kernels {

void DeviceExecutor::execute(const OpCall& call,
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
  if (launch_checked(call, inputs, outputs)) ++num_launches_[static_cast<size_t>(call.code)];
}

bool DeviceExecutor::launch_checked(const OpCall& call,
                                    std::span<const Tensor> inputs,
                                    std::span<const Tensor> outputs) {
  const LaunchOp launch_op = (*launches_)[static_cast<size_t>(call.code)];
  if (launch_op == nullptr) {
    throw InvalidArgument(
        fmt::format("{}: has no kernel for {}; use --device cpu, or a model and passes without it "
                    "(eight-bit types need the CPU)",
                    op_name(call.code),
                    stream_->device().name()));
  }
  return launch_op({.executor = *this,
                    .stream = *stream_,
                    .kernels = *kernels_,
                    .attention = attention_,
                    .call = call,
                    .in = inputs,
                    .out = outputs});
}

uint64_t DeviceExecutor::num_ops() const noexcept {
  return std::accumulate(num_ops_.begin(), num_ops_.end(), uint64_t{0});
}

uint64_t DeviceExecutor::num_launches() const noexcept {
  return std::accumulate(num_launches_.begin(), num_launches_.end(), uint64_t{0});
}

Tensor DeviceExecutor::allocate(const TensorType& type) {
  return Tensor::own(type, device::PoolReference(pool_->allocate(type.bytes())), *this);
}

bool launch_norm_apart(const OpRun& run) {
  const Tensor normed = run.executor.allocate(run.in[0].type());
  const std::array<Tensor, 2> norm = {run.in[0], run.in.back()};
  run.executor.launch_checked(
      {OpCode::rms_norm, {.epsilon = run.call.attributes.epsilon}}, norm, {&normed, 1});
  std::array<Tensor, kRuleOf<OpCode::linear_rope_kv_write>.operands.size> inputs;
  const size_t num_inputs = run.in.size();
  std::copy_n(run.in.begin(), num_inputs - 1, inputs.begin());
  inputs[0] = normed;
  return run.executor.launch_checked(run.call, std::span(inputs).first(num_inputs), run.out);
}

}  // namespace reprise::kernels
