#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kv_cache/tensors/growing_rows.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kv_cache {

/// The rows of one layer at one position: their number and their length.
struct CacheHeads {
  int64_t count = 0;
  int64_t head_dim = 0;

  bool operator==(const CacheHeads&) const = default;
};

/// The sizes of the KV cache.
struct KvCacheLayout {
  int64_t num_layers = 0;  // that cache keys and values; 0: the cache has no memory
  int64_t num_blocks = 0;  // that have memory, including the null block 0
  /// The number of blocks that have addresses. Blocks without memory get it when the cache grows.
  /// 0: num_blocks.
  int64_t num_addressed_blocks = 0;
  int64_t num_kv_heads = 0;
  int64_t block_size = 16;  // positions per block
  int64_t head_dim = 0;
  /// The heads of each layer, if layers differ; num_kv_heads and head_dim are then the largest
  /// numbers of any layer. Empty: all layers have num_kv_heads of head_dim.
  std::vector<CacheHeads> layer_heads = {};
  /// false: latent attention, with one row for each position, which is the key and also contains
  /// the value.
  bool has_values = true;
  DType dtype = DType::bf16;
  bool has_row_scales = false;  // see CacheDType

  /// The elements of the longest row; a scale counts as four elements of eight bits.
  [[nodiscard]] int64_t row_elements() const noexcept { return row_elements(head_dim); }
  [[nodiscard]] int64_t row_elements(int64_t head_size) const noexcept {
    return head_size + (has_row_scales ? static_cast<int64_t>(sizeof(float)) : 0);
  }
  [[nodiscard]] CacheHeads heads_of(int64_t layer) const noexcept {
    if (layer_heads.empty()) return {.count = num_kv_heads, .head_dim = head_dim};
    return layer_heads[static_cast<size_t>(layer)];
  }
  [[nodiscard]] int64_t tensors_per_layer() const noexcept { return has_values ? 2 : 1; }
  [[nodiscard]] int64_t addressed_blocks() const noexcept {
    return std::max(num_blocks, num_addressed_blocks);
  }
  /// The bytes of one block in each tensor.
  [[nodiscard]] std::vector<size_t> row_bytes() const;
  /// The bytes of one block: keys and values of all layers.
  [[nodiscard]] size_t bytes_per_block() const noexcept;
};

/// The device memory of the KV cache: one buffer, whose address never changes, with a key tensor
/// and, if the layout has values, a value tensor for each layer. It is filled with zeros at first.
/// The tensors have the rows of all blocks with addresses; only layout().num_blocks of them have
/// memory. Owned by the model runner.
class KvCacheTensors {
 public:
  /// \throws OutOfMemory
  KvCacheTensors(const KvCacheLayout& layout, device::Device& device, OpExecutor& executor);

  /// Gives more blocks memory; see GrowingRows::grow().
  void grow(int64_t num_blocks);

  /// [addressed_blocks(), heads of the layer, block_size, elements of its rows]
  [[nodiscard]] const Tensor& keys(int64_t layer) const {
    return tensors_[static_cast<size_t>(layer * layout_.tensors_per_layer())];
  }
  /// \pre layout().has_values
  [[nodiscard]] const Tensor& values(int64_t layer) const {
    return tensors_[static_cast<size_t>(layer * 2 + 1)];
  }
  /// All tensors: those of layer 0, keys before values, then those of layer 1, ...
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] const KvCacheLayout& layout() const noexcept { return layout_; }
  /// All addresses, including those without memory.
  [[nodiscard]] device::BufferView memory() const noexcept { return rows_.view(); }
  /// The bytes that have memory.
  [[nodiscard]] size_t bytes() const noexcept { return rows_.bytes(); }

 private:
  KvCacheLayout layout_;
  GrowingRows rows_;
  std::vector<Tensor> tensors_;
};

}  // namespace reprise::kv_cache
