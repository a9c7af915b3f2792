#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/scheduler/request_options.h"

namespace reprise::runner {

/// Which request each count slot of a device's sampler belongs to, and how many of its output
/// tokens the slot has counted. If there are more requests with penalties than slots, a request
/// takes the slot that was not used for the longest time. Belongs to one thread; only the
/// constructor allocates.
class CountSlots {
 public:
  explicit CountSlots(int32_t num_slots);

  /// Begins a step. A slot belongs to one row of a step.
  void begin_step() noexcept { ++step_; }
  /// Returns the slot of the request if it has counted exactly `num_output_tokens`. The slot then
  /// belongs to a row of this step, which chooses one more token.
  [[nodiscard]] std::optional<int32_t> use(scheduler::RequestId request, size_t num_output_tokens);
  /// Returns a slot that the request now owns and that must be counted anew, or nothing if rows of
  /// this step have all slots.
  [[nodiscard]] std::optional<int32_t> take(scheduler::RequestId request, size_t num_output_tokens);

 private:
  struct Slot {
    scheduler::RequestId request{};
    size_t num_counted = 0;
    uint64_t last_step = 0;  // 0: never used
  };
  [[nodiscard]] size_t find(scheduler::RequestId request) const noexcept;

  std::vector<Slot> slots_;
  uint64_t step_ = 0;
  size_t next_ = 0;  // where the search for the next request begins: steps have a similar order
};

}  // namespace reprise::runner
