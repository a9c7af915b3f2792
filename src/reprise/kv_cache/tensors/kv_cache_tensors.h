#pragma once

#include <cstdint>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kv_cache {

/// The sizes of the cache. All layers have the same.
struct KvCacheLayout {
  int64_t num_layers = 0;
  int64_t num_blocks = 0;  // including the null block 0
  int64_t num_kv_heads = 0;
  int64_t block_size = 16;  // positions per block
  int64_t head_dim = 0;
  DType dtype = DType::bf16;

  /// The bytes of one block: keys and values of all layers.
  [[nodiscard]] size_t bytes_per_block() const noexcept {
    return static_cast<size_t>(2 * num_layers * num_kv_heads * block_size * head_dim) *
           dtype_bytes(dtype);
  }
};

/// The device memory of the KV cache: one buffer, whose address never changes, with a key tensor
/// and a value tensor for each layer. It is filled with zeros at first. Owned by the model runner.
class KvCacheTensors {
 public:
  /// \throws OutOfMemory
  KvCacheTensors(const KvCacheLayout& layout, device::Device& device, OpExecutor& executor);

  /// [num_blocks, num_kv_heads, block_size, head_dim]
  [[nodiscard]] const Tensor& keys(int64_t layer) const {
    return keys_[static_cast<size_t>(layer)];
  }
  [[nodiscard]] const Tensor& values(int64_t layer) const {
    return values_[static_cast<size_t>(layer)];
  }
  [[nodiscard]] const KvCacheLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] device::BufferView memory() const noexcept { return buffer_.view(); }

 private:
  KvCacheLayout layout_;
  device::Buffer buffer_;
  std::vector<Tensor> keys_;
  std::vector<Tensor> values_;
};

}  // namespace reprise::kv_cache
