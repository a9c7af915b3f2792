#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::kv_cache {

/// The place of one request's recurrent states: row `slot` of each state tensor.
enum class StateSlot : int32_t {};
/// The slot of requests that only pad a batch. No request owns it, and no kernel reads or writes
/// it.
inline constexpr StateSlot kNullStateSlot{0};

/// Tracks which slots are free. It holds only numbers; StateCacheTensors owns the memory. A slot
/// keeps the states of its last owner until the first tokens of the next owner are computed, whose
/// kernels begin with zeros. O(1), and only the constructor allocates. Not thread-safe.
class StateSlotPool {
 public:
  /// Slots 1 to num_slots. 0: the model has no recurrent layers.
  explicit StateSlotPool(int num_slots);

  /// A free slot, or nothing, which is not an error.
  [[nodiscard]] std::optional<StateSlot> allocate();
  /// \pre the slot is in use
  void release(StateSlot slot);

  [[nodiscard]] int num_slots() const noexcept { return static_cast<int>(is_used_.size()) - 1; }
  [[nodiscard]] int num_free_slots() const noexcept { return static_cast<int>(free_.size()); }
  [[nodiscard]] bool is_used(StateSlot slot) const;

 private:
  std::vector<StateSlot> free_;  // the last one is given out next
  std::vector<bool> is_used_;    // by slot, the null slot included
};

}  // namespace reprise::kv_cache
