#include "tests/support/compile/rank_fixture.h"

#include <array>
#include <cstring>

#include "reprise/base/assert.h"
#include "reprise/tensor/view.h"

namespace reprise::compile {
namespace {

bool is_exchange(OpCode op) {
  return op == OpCode::all_reduce || op == OpCode::reduce_scatter || op == OpCode::all_gather;
}

float* row(const Tensor& tensor, int64_t index) {
  return tensor.data_as<float>() + index * tensor.stride(0);
}

}  // namespace

RankedExecutor::RankedExecutor(int64_t ranks,
                               OpExecutor& inner,
                               device::Stream& stream,
                               size_t bytes_per_rank)
    : ranks_(ranks),
      inner_(&inner),
      stream_(&stream),
      bytes_per_rank_(bytes_per_rank),
      memory_(bytes_per_rank * static_cast<size_t>(ranks)) {}

Tensor RankedExecutor::make(const TensorType& type) {
  constexpr size_t kAlignment = 64;
  void* data = memory_.data() + used_bytes_;
  used_bytes_ += (type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
  REPRISE_ASSERT(used_bytes_ <= bytes_per_rank_, "{} bytes per rank are too few", bytes_per_rank_);
  return Tensor::borrow(type, data, *this);
}

Tensor RankedExecutor::of_rank(const Tensor& tensor, int64_t rank) {
  if (!tensor.defined()) return {};
  std::byte* data = tensor.data_as<std::byte>() + bytes_per_rank_ * static_cast<size_t>(rank);
  return Tensor::borrow(tensor.type(), data, *inner_)
      .with_layout(tensor.shape(), tensor.strides(), 0);
}

void RankedExecutor::execute(const OpCall& call,
                             std::span<const Tensor> inputs,
                             std::span<Tensor> outputs) {
  if (is_view(call.code)) {
    outputs[0] = make_view(call, inputs[0]);
    return;
  }
  std::array<TensorType, kMaxOpOutputs> types;
  const size_t num_results = infer_output_types(call, inputs, types);
  for (size_t i = 0; i < num_results; ++i) outputs[i] = make(types[i]);
  if (call.code == OpCode::empty) return;
  if (is_exchange(call.code)) {
    exchange(call, inputs[0], outputs[0]);
    return;
  }
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    std::vector<Tensor> ins;
    std::vector<Tensor> outs;
    for (const Tensor& input : inputs) ins.push_back(of_rank(input, rank));
    for (size_t i = 0; i < num_results; ++i) outs.push_back(of_rank(outputs[i], rank));
    inner_->execute(call, ins, outs);
  }
}

void RankedExecutor::exchange(const OpCall& call, const Tensor& x, const Tensor& result) {
  REPRISE_ASSERT(call.attributes.ranks == ranks_ && x.dtype() == DType::f32, "not of these ranks");
  stream_->synchronize();
  const int64_t width = x.size(1);
  for (int64_t rank = 0; rank < ranks_; ++rank) {
    const Tensor to = of_rank(result, rank);
    for (int64_t i = 0; i < to.size(0); ++i) {
      if (call.code == OpCode::all_gather) {
        const Tensor from = of_rank(x, i / x.size(0));
        std::memcpy(row(to, i), row(from, i % x.size(0)), static_cast<size_t>(width) * 4);
        continue;
      }
      const int64_t from = call.code == OpCode::all_reduce ? i : rank * to.size(0) + i;
      for (int64_t column = 0; column < width; ++column) {
        float sum = 0;
        for (int64_t r = 0; r < ranks_; ++r) sum += row(of_rank(x, r), from)[column];
        row(to, i)[column] = sum;
      }
    }
  }
}

}  // namespace reprise::compile
