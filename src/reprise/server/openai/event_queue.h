#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/async_engine.h"

namespace reprise::server {

/// A copy of an AsyncOutput on its way to the I/O thread.
struct EngineEvent {
  uint64_t generation = 0;
  int choice = 0;
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<sampling::PositionLogprobs> logprobs;         // of token_ids, or empty
  std::vector<sampling::PositionLogprobs> prompt_logprobs;  // with the first token, or empty
  bool finished = false;
  std::string finish_reason;
  engine::StopReason stop_reason;
  std::string error;
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;
  int32_t num_cached_tokens = 0;
};

[[nodiscard]] inline EngineEvent copy_event(uint64_t generation,
                                            int choice,
                                            const api::AsyncOutput& output) {
  return {.generation = generation,
          .choice = choice,
          .text = std::string(output.text),
          .token_ids = {output.token_ids.begin(), output.token_ids.end()},
          .logprobs = {output.logprobs.begin(), output.logprobs.end()},
          .prompt_logprobs = {output.prompt_logprobs.begin(), output.prompt_logprobs.end()},
          .finished = output.finished,
          .finish_reason = output.finish_reason,
          .stop_reason = output.stop_reason,
          .error = output.error,
          .num_prompt_tokens = output.num_prompt_tokens,
          .num_output_tokens = output.num_output_tokens,
          .num_cached_tokens = output.num_cached_tokens};
}

/// Hands events from the engine's thread to the I/O thread: one wake-up for all that a step brings.
/// Callbacks share it, so it may be told to after its server is gone; then it drops everything.
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
  /// From now on events are dropped.
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
