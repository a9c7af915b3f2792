#include "reprise/engine/request_queue.h"

namespace reprise::engine {

void RequestQueue::push_back(Request& request) noexcept {
  request.queue_prev_ = back_;
  request.queue_next_ = nullptr;
  (back_ != nullptr ? back_->queue_next_ : front_) = &request;
  back_ = &request;
  ++size_;
}

void RequestQueue::push_front(Request& request) noexcept {
  request.queue_prev_ = nullptr;
  request.queue_next_ = front_;
  (front_ != nullptr ? front_->queue_prev_ : back_) = &request;
  front_ = &request;
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
