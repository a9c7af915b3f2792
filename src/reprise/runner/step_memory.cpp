#include "reprise/runner/step_memory.h"

#include <algorithm>

namespace reprise::runner {

std::string_view name(StepOutput output) noexcept {
  switch (output) {
    case StepOutput::inputs:
      return "inputs";
    case StepOutput::kv_cache:
      return "kv_cache";
    case StepOutput::states:
      return "states";
    case StepOutput::auxiliary:
      return "auxiliary";
    case StepOutput::logits:
      break;
  }
  return "logits";
}

StepMemory::StepMemory(const kv_cache::KvCacheTensors& kv_cache,
                       const kv_cache::StateCacheTensors& states,
                       const InputBatch& batch,
                       std::vector<device::BufferView> further_inputs)
    : kv_cache_(&kv_cache),
      states_(&states),
      batch_(&batch),
      further_inputs_(std::move(further_inputs)) {}

size_t StepMemory::largest(int32_t num_tokens, int32_t num_reqs) const noexcept {
  size_t bytes = batch_->memory().bytes;
  for (const device::BufferView& input : further_inputs_) bytes += input.bytes;
  const kv_cache::KvCacheLayout& layout = kv_cache_->layout();
  bytes += layout.bytes_per_block() / static_cast<size_t>(layout.block_size) *
           static_cast<size_t>(num_tokens);
  const kv_cache::StateCacheLayout& states = states_->layout();
  const int64_t most_slots =
      std::min<int64_t>(num_reqs * states.slots_per_req, std::max(num_reqs, num_tokens));
  bytes += states.bytes_per_slot() * static_cast<size_t>(most_slots);
  return bytes;
}

StepRegion StepMemory::row_of(const Tensor& tensor, StepOutput output, size_t row) {
  const size_t bytes = static_cast<size_t>(tensor.size(1)) * dtype_bytes(tensor.dtype());
  return {.output = output,
          .data = static_cast<std::byte*>(tensor.data()) + row * bytes,
          .bytes = bytes,
          .dtype = tensor.dtype(),
          .row = static_cast<int64_t>(row)};
}

}  // namespace reprise::runner
