#include "reprise/runner/count_slots.h"

#include <algorithm>

namespace reprise::runner {

CountSlots::CountSlots(int32_t num_slots) : slots_(static_cast<size_t>(num_slots)) {}

size_t CountSlots::find(scheduler::RequestId request) const noexcept {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const size_t index = (next_ + i) % slots_.size();
    if (slots_[index].last_step > 0 && slots_[index].request == request) return index;
  }
  return slots_.size();
}

std::optional<int32_t> CountSlots::use(scheduler::RequestId request, size_t num_output_tokens) {
  const size_t index = find(request);
  if (index == slots_.size()) return std::nullopt;
  Slot& slot = slots_[index];
  if (slot.num_counted != num_output_tokens || slot.last_step == step_) return std::nullopt;
  slot.num_counted = num_output_tokens + 1;
  slot.last_step = step_;
  next_ = index + 1;
  return static_cast<int32_t>(index);
}

std::optional<int32_t> CountSlots::take(scheduler::RequestId request, size_t num_output_tokens) {
  if (slots_.empty()) return std::nullopt;
  size_t index = find(request);
  if (index == slots_.size()) {
    const auto oldest = std::ranges::min_element(slots_, {}, &Slot::last_step);
    index = static_cast<size_t>(oldest - slots_.begin());
  }
  if (slots_[index].last_step == step_) return std::nullopt;
  slots_[index] = {.request = request, .num_counted = num_output_tokens + 1, .last_step = step_};
  next_ = index + 1;
  return static_cast<int32_t>(index);
}

}  // namespace reprise::runner
