#pragma once

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <utility>

#include "reprise/base/error.h"

namespace reprise {

/// A computation ended without a result, because its time was over or because the result is no
/// longer wanted. The caller made no mistake, and the process has no fault.
class Abandoned : public Error {
 public:
  using Error::Error;
};

/// Says when a long computation should end without a result: at a deadline, when its client has
/// disconnected, or when the process ends. The computation calls check() from time to time. A
/// value; thread-safe.
class WorkLimit {
 public:
  using Clock = std::chrono::steady_clock;

  /// No limit.
  WorkLimit() = default;
  WorkLimit(Clock::time_point deadline, std::stop_token client_gone, std::stop_token process_ends)
      : deadline_(deadline),
        client_gone_(std::move(client_gone)),
        process_ends_(std::move(process_ends)) {}

  /// \throws Abandoned when the computation should end
  void check() const {
    if (client_gone_.stop_requested()) throw Abandoned("The client has gone.");
    if (process_ends_.stop_requested()) throw Abandoned("The server is shutting down.");
    if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) {
      throw Abandoned("The server is too busy to read this request in time. Try again later.");
    }
  }

 private:
  Clock::time_point deadline_ = Clock::time_point::max();
  std::stop_token client_gone_;
  std::stop_token process_ends_;
};

/// Checks a limit once for every few KiB of text that a computation has read, because a check reads
/// the clock. One thread.
class WorkMeter {
 public:
  /// No limit.
  WorkMeter() = default;
  /// `limit` is borrowed and must outlive the meter; null: no limit.
  explicit WorkMeter(const WorkLimit* limit) : limit_(limit) {}

  /// The computation has read this many more bytes. \throws Abandoned when it should end
  void count(size_t num_bytes) {
    if (limit_ == nullptr) return;
    num_unchecked_bytes_ += num_bytes;
    if (num_unchecked_bytes_ < kBytesBetweenChecks) return;
    num_unchecked_bytes_ = 0;
    limit_->check();
  }

 private:
  // Cutting this many bytes into tokens takes a few milliseconds.
  static constexpr size_t kBytesBetweenChecks = 4096;

  const WorkLimit* limit_ = nullptr;
  size_t num_unchecked_bytes_ = 0;
};

}  // namespace reprise
