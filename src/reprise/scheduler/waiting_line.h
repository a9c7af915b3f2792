#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/scheduler/request.h"
#include "reprise/scheduler/request_queue.h"
#include "reprise/scheduler/scheduler_config.h"

namespace reprise::scheduler {

/// The waiting requests by rank, and how long they have waited. fcfs ranks by arrival. The policy
/// `priority` ranks by priority, but promoted requests come first. Steps are counted by the
/// scheduler: `step` is the number of the current one. Never allocates. Borrows its requests and
/// the configuration.
class WaitingLine {
 public:
  explicit WaitingLine(const SchedulerConfig& config) : config_(&config) {}

  [[nodiscard]] bool ranks_before(const Request& a, const Request& b) const noexcept;

  /// Adds a new request.
  void add(Request& request, uint64_t step);
  /// Adds a request again that was running.
  void add_again(Request& request, uint64_t step);
  /// Takes a request out because it ends.
  void remove(Request& request) noexcept { queue_.remove(request); }
  /// Takes a request out because it runs from this step on.
  void take(Request& request, uint64_t step) noexcept;
  /// Promotes the requests that have waited too long. Linear in the number of waiting requests.
  void promote(uint64_t step);
  /// Steps that the request has waited so far.
  [[nodiscard]] static uint64_t num_steps_waited(const Request& request, uint64_t step) noexcept {
    const WaitState& wait = request.state().wait;
    return wait.num_steps_waited + step - wait.queued_at_step;
  }

  [[nodiscard]] Request* front() const noexcept { return queue_.front(); }
  [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }
  [[nodiscard]] size_t size() const noexcept { return queue_.size(); }

 private:
  void insert_from_front(Request& request);

  const SchedulerConfig* config_;
  RequestQueue queue_;
  uint64_t next_arrival_order_ = 0;
};

}  // namespace reprise::scheduler
