#include "reprise/kv_cache/tensors/state_cache_tensors.h"

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

StateCacheTensors::StateCacheTensors(const StateCacheLayout& layout,
                                     device::Device& device,
                                     OpExecutor& executor)
    : layout_(layout) {
  if (layout.num_layers == 0) return;
  buffer_ = device.allocate(layout.bytes_per_slot() * static_cast<size_t>(layout.num_slots));
  const TensorType conv{DType::f32, {layout.num_slots, layout.conv_inputs, layout.conv_size}};
  const TensorType heads{
      DType::f32, {layout.num_slots, layout.num_heads, layout.head_rows, layout.head_columns}};
  auto* address = static_cast<std::byte*>(buffer_.data());
  for (int64_t layer = 0; layer < layout.num_layers; ++layer) {
    for (const TensorType& type : {conv, heads}) {
      if (type.bytes() == 0) continue;
      tensors_.push_back(Tensor::borrow(type, address, executor));
      address += type.bytes();
    }
  }
}

void StateCacheTensors::copy_slot(StateSlot from, StateSlot to, device::Stream& stream) const {
  REPRISE_ASSERT(from != kNullStateSlot && to != kNullStateSlot,
                 "states are copied from slot {} to slot {}",
                 static_cast<int32_t>(from),
                 static_cast<int32_t>(to));
  for (const Tensor& tensor : tensors_) {
    const size_t bytes = tensor.type().bytes() / static_cast<size_t>(layout_.num_slots);
    auto* const memory = static_cast<std::byte*>(tensor.data());
    stream.copy(memory + static_cast<size_t>(to) * bytes,
                memory + static_cast<size_t>(from) * bytes,
                bytes);
  }
}

}  // namespace reprise::kv_cache
