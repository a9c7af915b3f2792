#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "reprise/engine/output_delta.h"

namespace reprise::python {

/// A queue of deltas from the engine's thread to one reader. The reader blocks in `take`, or polls
/// `fileno`. Thread-safe.
class OutputQueue {
 public:
  /// \throws Error when the system has no file descriptor left
  OutputQueue();
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;
  ~OutputQueue();

  void put(engine::OutputDelta output);
  /// Removes and returns all deltas, in order. Waits up to `patience` for the first one; empty when
  /// none arrived.
  [[nodiscard]] std::vector<engine::OutputDelta> take(std::chrono::milliseconds patience);
  /// A descriptor that is readable while the queue is not empty; the queue owns it.
  [[nodiscard]] int fileno() const noexcept { return event_; }

 private:
  std::mutex mutex_;
  std::vector<engine::OutputDelta> outputs_;  // guarded by mutex_
  int event_;                                 // an eventfd, readable while outputs_ is not empty
};

}  // namespace reprise::python
