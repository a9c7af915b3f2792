#include "reprise/kv_cache/state_slot_pool.h"

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

StateSlotPool::StateSlotPool(int num_reqs, int slots_per_req)
    : slots_per_req_(slots_per_req), is_used_(static_cast<size_t>(num_reqs), false) {
  REPRISE_ASSERT(
      slots_per_req > 0, "a request must have at least one state slot, got {}", slots_per_req);
  free_.reserve(static_cast<size_t>(num_reqs));
  for (int i = num_reqs - 1; i >= 0; --i) free_.push_back(StateSlot{i * slots_per_req + 1});
}

std::optional<StateSlot> StateSlotPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const StateSlot slot = free_.back();
  free_.pop_back();
  is_used_[circle_of(slot)] = true;
  return slot;
}

void StateSlotPool::release(StateSlot slot) {
  REPRISE_ASSERT(slot != kNullStateSlot && is_used(slot),
                 "state slot {} is released, but it is not in use",
                 static_cast<int32_t>(slot));
  const size_t circle = circle_of(slot);
  is_used_[circle] = false;
  free_.push_back(StateSlot{static_cast<int32_t>(circle) * slots_per_req_ + 1});
}

bool StateSlotPool::is_used(StateSlot slot) const {
  if (static_cast<int32_t>(slot) <= 0) return false;
  const size_t circle = circle_of(slot);
  return circle < is_used_.size() && is_used_[circle];
}

}  // namespace reprise::kv_cache
