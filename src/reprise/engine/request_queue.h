#pragma once

#include <cstddef>

#include "reprise/engine/request.h"

namespace reprise::engine {

/// The waiting requests in the order in which they are admitted: an intrusive list, so that adding,
/// removing from the middle (abort) and putting back (preemption) are O(1) and never allocate.
/// A request is in at most one queue. Borrows its requests.
class RequestQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] Request* front() const noexcept { return front_; }
  [[nodiscard]] static Request* next(const Request& request) noexcept {
    return request.queue_next_;
  }

  void push_back(Request& request) noexcept;
  void push_front(Request& request) noexcept;
  /// \pre the request is in this queue.
  void remove(Request& request) noexcept;

 private:
  Request* front_ = nullptr;
  Request* back_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reprise::engine
