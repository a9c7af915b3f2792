#include "reprise/kv_cache/state_slot_pool.h"

#include "reprise/base/assert.h"

namespace reprise::kv_cache {

StateSlotPool::StateSlotPool(int num_slots) : is_used_(static_cast<size_t>(num_slots) + 1, false) {
  free_.reserve(static_cast<size_t>(num_slots));
  for (int slot = num_slots; slot > 0; --slot) free_.push_back(StateSlot{slot});
}

std::optional<StateSlot> StateSlotPool::allocate() {
  if (free_.empty()) return std::nullopt;
  const StateSlot slot = free_.back();
  free_.pop_back();
  is_used_[static_cast<size_t>(slot)] = true;
  return slot;
}

void StateSlotPool::release(StateSlot slot) {
  REPRISE_ASSERT(slot != kNullStateSlot && is_used(slot),
                 "state slot {} is released, but it is not in use",
                 static_cast<int32_t>(slot));
  is_used_[static_cast<size_t>(slot)] = false;
  free_.push_back(slot);
}

bool StateSlotPool::is_used(StateSlot slot) const {
  return static_cast<size_t>(slot) < is_used_.size() && is_used_[static_cast<size_t>(slot)];
}

}  // namespace reprise::kv_cache
