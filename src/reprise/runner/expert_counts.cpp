#include "reprise/runner/expert_counts.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <string>

#include "reprise/base/assert.h"
#include "reprise/kernels/select_experts/count_experts_arguments.h"

namespace reprise::runner {
namespace {

// Only one block, because several threads would share the counts. Only this kernel writes them, and
// steps follow one another, so a load and a store are enough.
void count_rows(const void* arguments, device::BlockRange) noexcept {
  const auto& a = *static_cast<const kernels::CountExpertsArguments*>(arguments);
  const int64_t end = std::min<int64_t>(a.num_rows, *a.num_tokens) * a.top_k;
  for (int64_t i = 0; i < end; ++i) {
    const int32_t expert = a.experts[i];
    if (expert < 0 || expert >= a.num_experts) continue;
    const std::atomic_ref<int32_t> count(a.counts[expert]);
    const auto next = static_cast<uint32_t>(count.load(std::memory_order_relaxed)) + 1;
    count.store(static_cast<int32_t>(next), std::memory_order_relaxed);
  }
}
constexpr device::Kernel kCountKernel{"count_experts", count_rows};

void launch_count(device::Stream& stream,
                  const device::Kernel& kernel,
                  std::span<const Tensor> in) {
  const kernels::CountExpertsArguments arguments{in[0].data_as<int32_t>(),
                                                 in[1].data_as<int32_t>(),
                                                 in[2].data_as<int32_t>(),
                                                 in[0].size(0),
                                                 in[0].size(1),
                                                 in[2].size(0)};
  using Access = device::BufferUse::Access;
  const std::array uses = {device::BufferUse{in[0].data(), in[0].type().bytes(), Access::read},
                           device::BufferUse{in[1].data(), in[1].type().bytes(), Access::read},
                           device::BufferUse{in[2].data(), in[2].type().bytes(), Access::write}};
  stream.launch({.kernel = &kernel,
                 .num_blocks = 1,
                 .args = std::as_bytes(std::span(&arguments, 1)),
                 .uses = uses});
}

}  // namespace

CustomOp make_expert_counter(const device::Kernel* kernel) {
  const auto launch_of = [](const device::Kernel* counter) -> CustomOp::Launch {
    if (counter == nullptr) return {};
    return
        [counter](device::Stream& stream,
                  std::span<const Tensor> in,
                  std::span<const Tensor> /*no results*/) { launch_count(stream, *counter, in); };
  };
  return {.name = std::string(kExpertCounterName),
          .num_inputs = 3,
          .num_outputs = 0,
          // Both operands are in memory that outlives the program.
          .mutated_inputs = {1, 2},
          .infer_types = [](std::span<const Tensor>, std::span<TensorType>) {},
          .launch_cpu = launch_of(&kCountKernel),
          .launch_cuda = launch_of(kernel)};
}

ExpertCounts::ExpertCounts(const weights::ModelConfig& model,
                           const CustomOp& op,
                           device::Device& device,
                           OpExecutor& executor) {
  REPRISE_ASSERT(model.moe.has_value(), "no experts to count");
  if (!device.is_host_accessible()) copies_ = device.create_stream();
  const int64_t num_experts = model.moe->num_experts;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    if (model.is_moe_layer(layer)) layers_.push_back(static_cast<int32_t>(layer));
  }
  const size_t num_counts = layers_.size() * static_cast<size_t>(num_experts);
  totals_.assign(num_counts, 0);
  last_.assign(num_counts, 0);
  buffer_ = device.allocate((num_counts + 1) * sizeof(int32_t));
  auto* address = static_cast<int32_t*>(buffer_.data());
  const auto take = [&](int64_t count) {
    tensors_.push_back(Tensor::borrow({DType::i32, {count}}, address, executor));
    address += count;
    return tensors_.back();
  };
  counting_.op = &op;
  counting_.num_tokens = take(1);
  counting_.layers.resize(static_cast<size_t>(model.num_hidden_layers));
  for (const int32_t layer : layers_) {
    counting_.layers[static_cast<size_t>(layer)] = take(num_experts);
  }
}

void ExpertCounts::stage(int32_t num_tokens, device::Stream& stream) {
  stream.copy_from_host(buffer_.data(), &num_tokens, sizeof num_tokens);
}

std::vector<std::byte> ExpertCounts::save() const {
  std::vector<std::byte> counts(buffer_.bytes());
  if (copies_ != nullptr) {
    copies_->copy_to_host(counts.data(), buffer_.data(), counts.size());
  } else {
    std::memcpy(counts.data(), buffer_.data(), counts.size());
  }
  return counts;
}

void ExpertCounts::restore(std::span<const std::byte> counts) noexcept {
  if (copies_ == nullptr) {
    std::memcpy(buffer_.data(), counts.data(), counts.size());
    return;
  }
  try {
    copies_->copy_from_host(buffer_.data(), counts.data(), counts.size());
    copies_->synchronize();
  } catch (const std::exception&) {
    return;  // the device is lost, and the next step reports it
  }
}

void ExpertCounts::collect() {
  auto* counts = static_cast<int32_t*>(buffer_.data()) + 1;  // behind the number of tokens
  if (copies_ != nullptr) {
    copied_.resize(totals_.size());
    try {
      copies_->copy_to_host(copied_.data(), counts, copied_.size() * sizeof(int32_t));
    } catch (const std::exception&) {
      return;  // the device is lost, and the next step reports it
    }
    counts = copied_.data();
  }
  for (size_t i = 0; i < totals_.size(); ++i) {
    const auto now =
        static_cast<uint32_t>(std::atomic_ref<int32_t>(counts[i]).load(std::memory_order_relaxed));
    totals_[i] += now - last_[i];
    last_[i] = now;
  }
}

}  // namespace reprise::runner
