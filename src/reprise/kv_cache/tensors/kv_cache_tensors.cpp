#include "reprise/kv_cache/tensors/kv_cache_tensors.h"

namespace reprise::kv_cache {

KvCacheTensors::KvCacheTensors(const KvCacheLayout& layout,
                               device::Device& device,
                               OpExecutor& executor)
    : layout_(layout) {
  // A model whose layers are all recurrent caches nothing here; its blocks only count tokens.
  if (layout.bytes_per_block() == 0) return;
  buffer_ = device.allocate(layout.bytes_per_block() * static_cast<size_t>(layout.num_blocks));
  const TensorType type{
      layout.dtype,
      {layout.num_blocks, layout.num_kv_heads, layout.block_size, layout.row_elements()}};
  auto* address = static_cast<std::byte*>(buffer_.data());
  for (int64_t i = 0; i < layout.num_layers * layout.tensors_per_layer(); ++i) {
    tensors_.push_back(Tensor::borrow(type, address, executor));
    address += type.bytes();
  }
}

}  // namespace reprise::kv_cache
