#include "reprise/scheduler/waiting_line.h"

#include <tuple>

namespace reprise::scheduler {

bool WaitingLine::ranks_before(const Request& a, const Request& b) const noexcept {
  const auto rank = [this](const Request& request) {
    const bool has_priority =
        config_->policy == SchedulingPolicy::priority && !request.is_promoted();
    return std::tuple(has_priority, has_priority ? request.priority() : 0, request.arrival_order());
  };
  return rank(a) < rank(b);
}

void WaitingLine::add(Request& request, uint64_t step) {
  WaitState& wait = request.state().wait;
  wait.arrival_order = next_arrival_order_++;
  wait.queued_at_step = step;
  // The search begins at the end, because the place of a new request is near it.
  Request* next = nullptr;
  for (Request* prev = queue_.back(); prev != nullptr && ranks_before(request, *prev);
       prev = RequestQueue::prev(*prev)) {
    next = prev;
  }
  queue_.insert_before(next, request);
}

void WaitingLine::add_again(Request& request, uint64_t step) {
  request.state().wait.queued_at_step = step;
  insert_from_front(request);
}

/// Inserts a request that was running or was promoted: its place is near the front.
void WaitingLine::insert_from_front(Request& request) {
  Request* next = queue_.front();
  while (next != nullptr && ranks_before(*next, request)) next = RequestQueue::next(*next);
  queue_.insert_before(next, request);
}

void WaitingLine::take(Request& request, uint64_t step) noexcept {
  queue_.remove(request);
  WaitState& wait = request.state().wait;
  wait.num_steps_waited += step - wait.queued_at_step;
}

void WaitingLine::promote(uint64_t step) {
  const auto max_wait = static_cast<uint64_t>(config_->max_priority_wait_steps);
  for (Request* request = queue_.front(); request != nullptr;) {
    Request* const next = RequestQueue::next(*request);
    if (!request->is_promoted() && num_steps_waited(*request, step) >= max_wait) {
      queue_.remove(*request);
      request->state().wait.is_promoted = true;
      insert_from_front(*request);
    }
    request = next;
  }
}

}  // namespace reprise::scheduler
