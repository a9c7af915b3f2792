#include "reprise/kv_cache/tensors/state_cache_tensors.h"

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

std::vector<size_t> StateCacheLayout::row_bytes() const {
  std::vector<size_t> bytes;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    for (const int64_t elements : {conv_inputs * conv_size, num_heads * head_rows * head_columns}) {
      if (elements > 0) bytes.push_back(static_cast<size_t>(elements) * sizeof(float));
    }
  }
  return bytes;
}

StateCacheTensors::StateCacheTensors(const StateCacheLayout& layout,
                                     device::Device& device,
                                     OpExecutor& executor)
    : layout_(layout) {
  if (layout.num_layers == 0) return;
  rows_ = GrowingRows(layout.row_bytes(),
                      {.with_memory = layout.num_slots, .with_addresses = layout.addressed_slots()},
                      device);
  const int64_t num_slots = layout.addressed_slots();
  const TensorType conv{DType::f32, {num_slots, layout.conv_inputs, layout.conv_size}};
  const TensorType heads{DType::f32,
                         {num_slots, layout.num_heads, layout.head_rows, layout.head_columns}};
  for (int64_t layer = 0; layer < layout.num_layers; ++layer) {
    for (const TensorType& type : {conv, heads}) {
      if (type.bytes() == 0) continue;
      tensors_.push_back(Tensor::borrow(type, rows_.address(tensors_.size()), executor));
    }
  }
}

void StateCacheTensors::grow(int64_t num_slots) {
  if (tensors_.empty()) return;
  rows_.grow(num_slots);
  layout_.num_slots = std::max(layout_.num_slots, num_slots);
}

void StateCacheTensors::copy_slot(StateSlot from, StateSlot to, device::Stream& stream) const {
  REPRISE_ASSERT(from != kNullStateSlot && to != kNullStateSlot,
                 "states are copied from slot {} to slot {}, but the null slot must not be used",
                 static_cast<int32_t>(from),
                 static_cast<int32_t>(to));
  for (const Tensor& tensor : tensors_) {
    const size_t bytes = tensor.type().bytes() / static_cast<size_t>(layout_.addressed_slots());
    auto* const memory = static_cast<std::byte*>(tensor.data());
    stream.copy(memory + static_cast<size_t>(to) * bytes,
                memory + static_cast<size_t>(from) * bytes,
                bytes);
  }
}

}  // namespace reprise::kv_cache
