#pragma once

#include <cstddef>

namespace reprise::scheduler {

class Request;

/// The waiting requests in the order in which they are admitted: an intrusive list, so that adding,
/// removing from the middle (abort) and putting back (preemption) are O(1) and never allocate.
/// A request is in at most one queue. Borrows its requests.
class RequestQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] size_t size() const noexcept { return size_; }
  [[nodiscard]] Request* front() const noexcept { return front_; }
  [[nodiscard]] Request* back() const noexcept { return back_; }
  [[nodiscard]] static Request* next(const Request& request) noexcept;
  [[nodiscard]] static Request* prev(const Request& request) noexcept;

  void push_back(Request& request) noexcept { insert_before(nullptr, request); }
  void push_front(Request& request) noexcept { insert_before(front_, request); }
  /// Inserts the request in front of `next`, which is in this queue; null means at the end.
  void insert_before(Request* next, Request& request) noexcept;
  /// \pre the request is in this queue.
  void remove(Request& request) noexcept;

 private:
  Request* front_ = nullptr;
  Request* back_ = nullptr;
  size_t size_ = 0;
};

}  // namespace reprise::scheduler
