#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "reprise/api/async_engine.h"

namespace reprise::python {

/// An AsyncOutput that owns what it says.
struct StepOutput {
  uint64_t request_id = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;
  std::vector<sampling::PositionLogprobs> prompt_logprobs;
  bool finished = false;
  std::string finish_reason;
  engine::StopReason stop_reason;
  std::string error;
  int32_t num_cached_tokens = 0;
};

[[nodiscard]] StepOutput own(const api::AsyncOutput& output);

/// Outputs on their way from the engine's thread to one reader, who blocks in `take` or watches
/// `fileno`. Thread-safe.
class OutputQueue {
 public:
  /// \throws Error when the system has no file descriptor left
  OutputQueue();
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;
  ~OutputQueue();

  void put(StepOutput output);
  /// Everything there is, in order. Waits for the first one; empty when none came in time.
  [[nodiscard]] std::vector<StepOutput> take(std::chrono::milliseconds patience);
  /// Readable while there is something to take; belongs to the queue.
  [[nodiscard]] int fileno() const noexcept { return event_; }

 private:
  std::mutex mutex_;
  std::vector<StepOutput> outputs_;  // guarded by mutex_
  int event_;                        // an eventfd, readable while outputs_ is not empty
};

}  // namespace reprise::python
