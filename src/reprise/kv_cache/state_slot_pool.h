#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::kv_cache {

/// The place of recurrent states of one request: row `slot` of each state tensor.
enum class StateSlot : int32_t {};
/// The slot of requests that only pad a batch. No request owns it, and no kernel reads or writes
/// it.
inline constexpr StateSlot kNullStateSlot{0};

/// The slot `count` places after `slot` in the circle of a request's slots: `slots_per_req`
/// consecutive slots, after the last of which comes the first. \pre `slot` is not the null slot
[[nodiscard]] constexpr StateSlot state_slot_behind(StateSlot slot,
                                                    int32_t count,
                                                    int32_t slots_per_req) noexcept {
  const int32_t index = static_cast<int32_t>(slot) - 1;
  const int32_t first = index - index % slots_per_req;
  return StateSlot{first + (index - first + count) % slots_per_req + 1};
}

/// Tracks which requests may hold states. It holds only numbers; StateCacheTensors owns the memory.
/// A request has a circle of slots: one slot, and one more for each draft token that a step may
/// take back. Slots keep the states of their last owner until the first tokens of the next owner
/// are computed, whose kernels begin with zeros. O(1), and only the constructor allocates. Not
/// thread-safe.
class StateSlotPool {
 public:
  /// Makes a pool of the slots 1 to num_reqs * slots_per_req. num_reqs is 0 if the model has no
  /// recurrent layers.
  explicit StateSlotPool(int num_reqs, int slots_per_req = 1);

  /// The first slot of a free circle. Nothing if no circle is free, which is not an error.
  [[nodiscard]] std::optional<StateSlot> allocate();
  /// `slot`: any slot of the circle. \pre the circle is in use
  void release(StateSlot slot);

  [[nodiscard]] int num_reqs() const noexcept { return static_cast<int>(is_used_.size()); }
  [[nodiscard]] int num_free() const noexcept { return static_cast<int>(free_.size()); }
  [[nodiscard]] int slots_per_req() const noexcept { return slots_per_req_; }
  /// Whether the circle of this slot belongs to a request.
  [[nodiscard]] bool is_used(StateSlot slot) const;
  /// The number of the slot's circle, from 0. \pre not the null slot
  [[nodiscard]] size_t circle_of(StateSlot slot) const noexcept {
    return static_cast<size_t>((static_cast<int32_t>(slot) - 1) / slots_per_req_);
  }

 private:
  int slots_per_req_;
  std::vector<StateSlot> free_;  // the first slots of circles; the last one is given out next
  std::vector<bool> is_used_;    // by circle
};

}  // namespace reprise::kv_cache
