#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "reprise/api/async_engine.h"

namespace reprise::server {

/// The output that one step added to one choice of a generation.
struct EngineEvent {
  uint64_t generation = 0;
  int choice = 0;
  engine::OutputDelta delta;
};

/// Hands events from the engine's thread to the I/O thread, with one wake-up for all events of a
/// step. The engine's callbacks share ownership of the queue, so events may arrive after the server
/// is gone; the queue then drops them.
class EventQueue {
 public:
  /// `wake` must be thread-safe; the woken thread calls take().
  explicit EventQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  void push(EngineEvent event) {
    const std::lock_guard lock(mutex_);
    if (!wake_) return;
    events_.push_back(std::move(event));
    if (events_.size() == 1) wake_();
  }
  [[nodiscard]] std::vector<EngineEvent> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(events_, {});
  }
  /// Events that arrive after this call are dropped.
  void close() {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    events_.clear();
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<EngineEvent> events_;
};

}  // namespace reprise::server
