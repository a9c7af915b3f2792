#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kv_cache/tensors/kv_cache_tensors.h"
#include "reprise/kv_cache/tensors/state_cache_tensors.h"
#include "reprise/runner/forward.h"
#include "reprise/runner/input_batch.h"

namespace reprise::runner {

/// Kinds of memory that a step reads or writes. Differences are searched in this order: the first
/// kind is the closest to the cause.
enum class StepOutput : uint8_t {
  inputs,     // which a step only reads
  kv_cache,   // the rows of the batch's tokens
  states,     // the slots of the batch's requests
  auxiliary,  // hidden states for a draft head
  logits,     // or the vectors of a pooling model
};

/// The name in snake_case, for metrics and reports.
[[nodiscard]] std::string_view name(StepOutput output) noexcept;

/// Contiguous device memory of one row of a step. Borrowed.
struct StepRegion {
  StepOutput output = StepOutput::inputs;
  std::byte* data = nullptr;
  size_t bytes = 0;
  DType dtype = DType::i32;
  int64_t tensor = 0;  // the number of the cache's tensor, or of the input
  int64_t row = 0;     // row of the batch: a token, a request, or a row of logits
};

/// Finds the memory that the staged batch reads and changes: its inputs, its rows of the cache and
/// its state slots, and the rows of its results that are used. Memory of padding is left out.
/// Borrows everything. Allocates nothing after construction.
class StepMemory {
 public:
  /// `further_inputs`: inputs that are not in the batch's own buffer.
  StepMemory(const kv_cache::KvCacheTensors& kv_cache,
             const kv_cache::StateCacheTensors& states,
             const InputBatch& batch,
             std::vector<device::BufferView> further_inputs);

  /// The largest number of bytes of inputs, cache rows and states that a batch of these sizes has.
  [[nodiscard]] size_t largest(int32_t num_tokens, int32_t num_reqs) const noexcept;

  /// Calls `visit` with each region of the inputs, the cache and the states. The order and the
  /// sizes stay the same while the same batch is staged.
  template <typename Visit>
  void for_each_changed(const Visit& visit) const {
    visit_input(0, batch_->memory(), visit);
    for (size_t i = 0; i < further_inputs_.size(); ++i) {
      visit_input(static_cast<int64_t>(i) + 1, further_inputs_[i], visit);
    }
    const std::span<const Tensor> of_cache = kv_cache_->tensors();
    for (size_t i = 0; i < of_cache.size(); ++i) visit_cache(static_cast<int64_t>(i), visit);
    const std::span<const Tensor> of_states = states_->tensors();
    for (size_t i = 0; i < of_states.size(); ++i) visit_states(static_cast<int64_t>(i), visit);
  }

  /// The same for results. `num_logits`: the rows of logits that the batch needs.
  template <typename Visit>
  void for_each_result(std::span<const Tensor> outputs,  // by ForwardOutput
                       int32_t num_logits,
                       const Visit& visit) const {
    if (outputs.size() > kAuxiliary && outputs[kAuxiliary].defined()) {
      const std::span<const int32_t> slots = batch_->host_slot_mapping();
      for (size_t row = 0; row < slots.size(); ++row) {
        if (slots[row] >= 0) visit(row_of(outputs[kAuxiliary], StepOutput::auxiliary, row));
      }
    }
    if (outputs.empty() || !outputs[kLogits].defined()) return;
    for (size_t row = 0; std::cmp_less(row, num_logits); ++row) {
      visit(row_of(outputs[kLogits], StepOutput::logits, row));
    }
  }

  [[nodiscard]] const InputBatch& batch() const noexcept { return *batch_; }
  [[nodiscard]] const kv_cache::KvCacheTensors& kv_cache() const noexcept { return *kv_cache_; }
  [[nodiscard]] const kv_cache::StateCacheTensors& states() const noexcept { return *states_; }
  [[nodiscard]] std::span<const device::BufferView> further_inputs() const noexcept {
    return further_inputs_;
  }

 private:
  [[nodiscard]] static StepRegion row_of(const Tensor& tensor, StepOutput output, size_t row);

  template <typename Visit>
  static void visit_input(int64_t index, device::BufferView memory, const Visit& visit) {
    if (memory.bytes == 0) return;
    visit(StepRegion{.output = StepOutput::inputs,
                     .data = static_cast<std::byte*>(memory.data),
                     .bytes = memory.bytes,
                     .tensor = index});
  }
  /// A token has a row for each head, and these rows do not follow each other.
  template <typename Visit>
  void visit_cache(int64_t index, const Visit& visit) const {
    const kv_cache::KvCacheLayout& layout = kv_cache_->layout();
    const Tensor& tensor = kv_cache_->tensors()[static_cast<size_t>(index)];
    const int64_t num_heads = tensor.size(1);
    const size_t row_bytes = static_cast<size_t>(tensor.size(3)) * dtype_bytes(layout.dtype);
    const std::span<const int32_t> slots = batch_->host_slot_mapping();
    for (size_t token = 0; token < slots.size(); ++token) {
      if (slots[token] < 0) continue;
      const int64_t block = slots[token] / layout.block_size;
      const int64_t position = slots[token] % layout.block_size;
      for (int64_t head = 0; head < num_heads; ++head) {
        const int64_t row = (block * num_heads + head) * layout.block_size + position;
        visit(StepRegion{
            .output = StepOutput::kv_cache,
            .data = static_cast<std::byte*>(tensor.data()) + static_cast<size_t>(row) * row_bytes,
            .bytes = row_bytes,
            .dtype = layout.dtype,
            .tensor = index,
            .row = static_cast<int64_t>(token)});
      }
    }
  }
  template <typename Visit>
  void visit_states(int64_t index, const Visit& visit) const {
    const Tensor& tensor = states_->tensors()[static_cast<size_t>(index)];
    const size_t bytes = tensor.extent().bytes / static_cast<size_t>(tensor.size(0));
    for (int32_t request = 0; request < batch_->num_real_reqs(); ++request) {
      for (const int32_t slot : batch_->host_state_slots(request)) {
        if (slot == static_cast<int32_t>(kv_cache::kNullStateSlot)) continue;
        visit(StepRegion{
            .output = StepOutput::states,
            .data = static_cast<std::byte*>(tensor.data()) + static_cast<size_t>(slot) * bytes,
            .bytes = bytes,
            .dtype = tensor.dtype(),
            .tensor = index,
            .row = request});
      }
    }
  }

  const kv_cache::KvCacheTensors* kv_cache_;
  const kv_cache::StateCacheTensors* states_;
  const InputBatch* batch_;
  std::vector<device::BufferView> further_inputs_;
};

}  // namespace reprise::runner
