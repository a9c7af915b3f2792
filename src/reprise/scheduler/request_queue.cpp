#include "reprise/scheduler/request_queue.h"

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

Request* RequestQueue::next(const Request& request) noexcept { return request.state().wait.next; }

Request* RequestQueue::prev(const Request& request) noexcept { return request.state().wait.prev; }

void RequestQueue::insert_before(Request* next, Request& request) noexcept {
  Request* const prev = next != nullptr ? next->state().wait.prev : back_;
  request.state().wait.prev = prev;
  request.state().wait.next = next;
  (prev != nullptr ? prev->state().wait.next : front_) = &request;
  (next != nullptr ? next->state().wait.prev : back_) = &request;
  ++size_;
}

void RequestQueue::remove(Request& request) noexcept {
  Request* const prev = request.state().wait.prev;
  Request* const next = request.state().wait.next;
  (prev != nullptr ? prev->state().wait.next : front_) = next;
  (next != nullptr ? next->state().wait.prev : back_) = prev;
  request.state().wait.prev = nullptr;
  request.state().wait.next = nullptr;
  --size_;
}

}  // namespace reprise::scheduler
