#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kv_cache/state_slot_pool.h"
#include "reprise/kv_cache/tensors/growing_rows.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kv_cache {

/// The sizes of the states of recurrent layers. All layers have the same.
struct StateCacheLayout {
  int64_t num_layers = 0;     // 0: the model has no recurrent layers, and there are no tensors
  int64_t num_slots = 0;      // that have memory, including the null slot 0 and the snapshots
  int64_t slots_per_req = 1;  // see StateSlotPool
  /// The number of slots that have addresses. Slots without memory get it when the cache grows. 0:
  /// num_slots.
  int64_t num_addressed_slots = 0;
  int64_t conv_inputs = 0;  // that a convolution keeps: its kernel - 1
  int64_t conv_size = 0;    // channels of the convolution
  int64_t num_heads = 0;    // 0: only convolutions keep states
  int64_t head_rows = 0;    // a head's state is [head_rows, head_columns]
  int64_t head_columns = 0;

  [[nodiscard]] int64_t addressed_slots() const noexcept {
    return std::max(num_slots, num_addressed_slots);
  }
  /// The bytes of one slot in each tensor: first of a layer's convolution, then of its heads.
  [[nodiscard]] std::vector<size_t> row_bytes() const;
  /// The bytes of one slot: the states of all layers, in float32.
  [[nodiscard]] size_t bytes_per_slot() const noexcept {
    return static_cast<size_t>(num_layers *
                               (conv_inputs * conv_size + num_heads * head_rows * head_columns)) *
           sizeof(float);
  }
};

/// The device memory of recurrent states: one buffer, whose address never changes, with two tensors
/// for each layer. States are float32 whatever the model's type is, because they are rounded after
/// every token. The memory is filled with zeros at first. The tensors have the rows of all slots
/// with addresses; only layout().num_slots of them have memory. Owned by the model runner.
class StateCacheTensors {
 public:
  /// \throws OutOfMemory
  StateCacheTensors(const StateCacheLayout& layout, device::Device& device, OpExecutor& executor);

  /// Gives more slots memory; see GrowingRows::grow(). Has no effect without recurrent layers.
  void grow(int64_t num_slots);

  /// [addressed_slots(), conv_inputs, conv_size]
  [[nodiscard]] const Tensor& conv(int64_t layer) const {
    return tensors_[static_cast<size_t>(tensors_of_layer() * layer)];
  }
  /// [addressed_slots(), num_heads, head_rows, head_columns]. \pre layout().num_heads > 0
  [[nodiscard]] const Tensor& heads(int64_t layer) const {
    return tensors_[static_cast<size_t>(2 * layer + 1)];
  }
  /// All tensors: those of layer 0, the convolution's first, then those of layer 1, ...
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  [[nodiscard]] const StateCacheLayout& layout() const noexcept { return layout_; }
  /// Copies the states of all layers. The other slots stay as they are.
  /// \pre neither is the null slot
  void copy_slot(StateSlot from, StateSlot to, device::Stream& stream) const;
  /// All addresses, including those without memory. Empty without recurrent layers.
  [[nodiscard]] device::BufferView memory() const noexcept { return rows_.view(); }
  /// The bytes that have memory.
  [[nodiscard]] size_t bytes() const noexcept { return rows_.bytes(); }

 private:
  [[nodiscard]] int64_t tensors_of_layer() const noexcept { return layout_.num_heads > 0 ? 2 : 1; }

  StateCacheLayout layout_;
  GrowingRows rows_;
  std::vector<Tensor> tensors_;
};

}  // namespace reprise::kv_cache
