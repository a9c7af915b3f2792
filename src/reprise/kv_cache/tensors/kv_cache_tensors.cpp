#include "reprise/kv_cache/tensors/kv_cache_tensors.h"

namespace reprise::kv_cache {

std::vector<size_t> KvCacheLayout::row_bytes() const {
  // A model whose layers are all recurrent caches nothing here; its blocks only count tokens.
  if (bytes_per_block() == 0) return {};
  const auto num_tensors = static_cast<size_t>(num_layers * tensors_per_layer());
  return std::vector<size_t>(num_tensors, bytes_per_block() / num_tensors);
}

KvCacheTensors::KvCacheTensors(const KvCacheLayout& layout,
                               device::Device& device,
                               OpExecutor& executor)
    : layout_(layout) {
  if (layout.bytes_per_block() == 0) return;
  rows_ =
      GrowingRows(layout.row_bytes(),
                  {.with_memory = layout.num_blocks, .with_addresses = layout.addressed_blocks()},
                  device);
  const TensorType type{
      layout.dtype,
      {layout.addressed_blocks(), layout.num_kv_heads, layout.block_size, layout.row_elements()}};
  const auto num_tensors = static_cast<size_t>(layout.num_layers * layout.tensors_per_layer());
  for (size_t i = 0; i < num_tensors; ++i) {
    tensors_.push_back(Tensor::borrow(type, rows_.address(i), executor));
  }
}

void KvCacheTensors::grow(int64_t num_blocks) {
  if (!tensors_.empty()) rows_.grow(num_blocks);
  layout_.num_blocks = std::max(layout_.num_blocks, num_blocks);
}

}  // namespace reprise::kv_cache
