#include "reprise/scheduler/request_queue.h"

namespace reprise::engine {

void RequestQueue::insert_before(Request* next, Request& request) noexcept {
  Request* const prev = next != nullptr ? next->queue_prev_ : back_;
  request.queue_prev_ = prev;
  request.queue_next_ = next;
  (prev != nullptr ? prev->queue_next_ : front_) = &request;
  (next != nullptr ? next->queue_prev_ : back_) = &request;
  ++size_;
}

void RequestQueue::remove(Request& request) noexcept {
  Request* const prev = request.queue_prev_;
  Request* const next = request.queue_next_;
  (prev != nullptr ? prev->queue_next_ : front_) = next;
  (next != nullptr ? next->queue_prev_ : back_) = prev;
  request.queue_prev_ = nullptr;
  request.queue_next_ = nullptr;
  --size_;
}

}  // namespace reprise::engine
