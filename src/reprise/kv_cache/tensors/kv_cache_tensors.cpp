#include "reprise/kv_cache/tensors/kv_cache_tensors.h"

namespace reprise::kv_cache {

std::vector<size_t> KvCacheLayout::row_bytes() const {
  std::vector<size_t> bytes;
  for (int64_t i = 0; i < num_layers * tensors_per_layer(); ++i) {
    const CacheHeads heads = heads_of(i / tensors_per_layer());
    const int64_t elements = heads.count * block_size * row_elements(heads.head_dim);
    bytes.push_back(static_cast<size_t>(elements) * dtype_bytes(dtype));
  }
  return bytes;
}

size_t KvCacheLayout::bytes_per_block() const noexcept {
  int64_t elements = 0;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const CacheHeads heads = heads_of(layer);
    elements += heads.count * block_size * row_elements(heads.head_dim);
  }
  return static_cast<size_t>(tensors_per_layer() * elements) * dtype_bytes(dtype);
}

KvCacheTensors::KvCacheTensors(const KvCacheLayout& layout,
                               device::Device& device,
                               OpExecutor& executor)
    : layout_(layout) {
  // A model whose layers are all recurrent caches nothing here; its blocks only count tokens.
  if (layout.bytes_per_block() == 0) return;
  rows_ =
      GrowingRows(layout.row_bytes(),
                  {.with_memory = layout.num_blocks, .with_addresses = layout.addressed_blocks()},
                  device);
  const int64_t num_tensors = layout.num_layers * layout.tensors_per_layer();
  for (int64_t i = 0; i < num_tensors; ++i) {
    const CacheHeads heads = layout.heads_of(i / layout.tensors_per_layer());
    const TensorType type{layout.dtype,
                          {layout.addressed_blocks(),
                           heads.count,
                           layout.block_size,
                           layout.row_elements(heads.head_dim)}};
    tensors_.push_back(Tensor::borrow(type, rows_.address(static_cast<size_t>(i)), executor));
  }
}

void KvCacheTensors::grow(int64_t num_blocks) {
  if (!tensors_.empty()) rows_.grow(num_blocks);
  layout_.num_blocks = std::max(layout_.num_blocks, num_blocks);
}

}  // namespace reprise::kv_cache
